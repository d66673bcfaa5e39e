#include "net/sse.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace penstock::net {
namespace {

using Events = std::vector<std::string>;

Events read_in_pieces(std::string_view text, std::size_t size) {
  SseReader reader;
  Events events;
  for (; !text.empty(); text.remove_prefix(std::min(size, text.size())))
    EXPECT_TRUE(reader.take(text.substr(0, size), [&](std::string_view data) { events.emplace_back(data); }));
  return events;
}

TEST(SseReader, FindsEventsInPiecesOfAnySize) {
  const std::string text =
      ": a comment\n\ndata: {\"a\":1}\n\r\nevent: token\r\ndata:no blank\r\nid: 7\r\n\r\ndata: two\ndata:  "
      "lines\ndata\n\n"
      "database: other\ndata: [DONE]\n\ndata: not ended";
  const Events expected = {"{\"a\":1}", "no blank", "two\n lines\n", "[DONE]"};
  for (std::size_t size = 1; size <= text.size(); ++size) EXPECT_EQ(read_in_pieces(text, size), expected) << size;
}

TEST(SseReader, SkipsEventsWithoutData) { EXPECT_EQ(read_in_pieces("event: ping\n\n\n\n", 100), Events{}); }

TEST(SseReader, ReportsEventsWithEmptyData) { EXPECT_EQ(read_in_pieces("data:\n\n", 100), Events{""}); }

TEST(SseReader, RejectsAnEventThatIsTooLong) {
  SseReader reader;
  const std::string piece(1024 * 1024, 'x');
  bool fits = reader.take("data: ", [](std::string_view) {});
  for (int i = 0; i < 16 && fits; ++i) fits = reader.take(piece, [](std::string_view) {});
  EXPECT_FALSE(fits);
}

}  // namespace
}  // namespace penstock::net
