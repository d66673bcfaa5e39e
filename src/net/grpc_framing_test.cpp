#include "net/grpc_framing.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace penstock::net {
namespace {

using namespace std::string_literals;
using namespace std::string_view_literals;
using State = GrpcMessageReader::State;

TEST(GrpcFraming, MessagesAreTheSameInPiecesOfAnySize) {
  const std::vector<std::string> messages{"", "one", std::string(70'000, 'x'), "", std::string(100, 'y')};
  std::string bytes;
  for (const std::string& message : messages) append_grpc_message(bytes, message);
  for (const std::size_t size :
       {std::size_t{1}, std::size_t{2}, std::size_t{5}, std::size_t{6}, std::size_t{16'384}, bytes.size()}) {
    GrpcMessageReader reader{70'000};
    std::vector<std::string> read;
    for (std::string_view rest = bytes; !rest.empty();) {
      const std::string piece{rest.substr(0, size)};
      rest.remove_prefix(piece.size());
      std::string_view left = piece;
      while (reader.next(left) == State::kMessage) read.emplace_back(reader.message());
      EXPECT_TRUE(left.empty());
    }
    EXPECT_TRUE(read == messages) << size;
    EXPECT_FALSE(reader.has_part());
  }
}

TEST(GrpcFraming, AMessageThatIsWholeIsNotCopied) {
  std::string bytes;
  append_grpc_message(bytes, "text");
  GrpcMessageReader reader{100};
  std::string_view rest = bytes;
  ASSERT_EQ(reader.next(rest), State::kMessage);
  EXPECT_EQ(reader.message().data(), bytes.data() + kGrpcPrefixBytes);
}

TEST(GrpcFraming, CompressedAndLargeMessagesEndTheReading) {
  for (const std::size_t size : {1, 5}) {
    for (const auto& [bytes, state] :
         {std::pair{"\1\0\0\0\1x"s, State::kCompressed}, std::pair{"\0\0\0\0\x0bx"s, State::kTooLarge},
          std::pair{"\0\xff\xff\xff\xffx"s, State::kTooLarge}}) {
      GrpcMessageReader reader{10};
      State last = State::kMore;
      for (std::size_t at = 0; at < bytes.size() && last == State::kMore; at += size) {
        std::string_view piece = std::string_view{bytes}.substr(at, size);
        last = reader.next(piece);
      }
      EXPECT_EQ(last, state);
    }
  }
}

TEST(GrpcFraming, APartIsNoMessage) {
  GrpcMessageReader reader{10};
  std::string_view bytes = "\0\0\0\0\2x"sv;
  EXPECT_EQ(reader.next(bytes), State::kMore);
  EXPECT_TRUE(reader.has_part());
  bytes = "y";
  ASSERT_EQ(reader.next(bytes), State::kMessage);
  EXPECT_EQ(reader.message(), "xy");
  EXPECT_FALSE(reader.has_part());
}

}  // namespace
}  // namespace penstock::net
