#include "core/protobuf.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

namespace penstock::core::protobuf {
namespace {

using namespace std::string_literals;

TEST(Protobuf, WritesTheBytesOfTheSpecification) {
  Writer writer;
  writer.varint(1, 150);
  writer.bytes(2, "testing");
  writer.real(3, 1.0);
  EXPECT_EQ(writer.message(), "\x08\x96\x01\x12\x07testing\x19\0\0\0\0\0\0\xf0\x3f"s);
}

TEST(Protobuf, AMessageIsWrittenFromTheOutsideToTheInside) {
  for (const std::uint32_t number : {1U, 15U, 16U, 0x1fffffffU})
    for (const std::size_t size : {0, 1, 127, 128, 16'383, 16'384}) {
      const std::string text(size, 'x');
      Writer writer;
      writer.bytes(number, text);
      std::string message;
      append_bytes_head(message, number, size);
      EXPECT_EQ(message + text, writer.message());
      EXPECT_EQ(bytes_field_size(number, size), writer.message().size());
    }
}

TEST(Protobuf, WritesSignedNumbersAndMessagesOfAStream) {
  Writer writer;
  writer.signed_varint(1, -1);
  writer.signed_varints(2, std::vector<std::int64_t>{0, 1, -2, 150, INT64_MIN});
  writer.signed_varints(3, {});
  EXPECT_EQ(writer.message(), "\x08\x01\x12\x0f\x00\x02\x03\xac\x02\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"s);
  std::string stream;
  append_delimited(stream, std::string(200, 'x'));
  append_delimited(stream, "");
  EXPECT_EQ(stream, "\xc8\x01" + std::string(200, 'x') + "\0"s);
}

TEST(Protobuf, ReadsWhatItWrites) {
  Writer writer;
  writer.varint(7, UINT64_MAX);
  writer.bytes(3, "");
  Reader reader{writer.message()};
  const auto number = reader.next();
  ASSERT_TRUE(number);
  EXPECT_EQ(number->number, 7U);
  EXPECT_EQ(number->value, UINT64_MAX);
  const auto text = reader.next();
  ASSERT_TRUE(text);
  EXPECT_EQ(text->number, 3U);
  EXPECT_EQ(text->bytes, "");
  EXPECT_FALSE(reader.next());
  EXPECT_TRUE(reader.is_valid());
}

TEST(Protobuf, SkipsFieldsOfEachSize) {
  const std::string message = "\x0d\x01\x02\x03\x04\x11\1\2\3\4\5\6\7\x08\x18\x05"s;
  Reader reader{message};
  EXPECT_EQ(reader.next()->value, 0x04030201U);
  EXPECT_EQ(reader.next()->value, 0x0807060504030201U);
  EXPECT_EQ(reader.next()->value, 5U);
  EXPECT_FALSE(reader.next());
  EXPECT_TRUE(reader.is_valid());
}

TEST(Protobuf, EveryCutAndEveryMalformedFieldIsNoticed) {
  const std::string whole = "\x08\x96\x01\x12\x03"s + "abc" + "\x19\0\0\0\0\0\0\xf0\x3f"s;
  const auto is_valid = [](std::string_view message) {
    Reader reader{message};
    while (reader.next()) continue;
    return reader.is_valid();
  };
  for (std::size_t size = 0; size <= whole.size(); ++size)
    EXPECT_EQ(is_valid(std::string_view{whole}.substr(0, size)),
              size == 0 || size == 3 || size == 8 || size == whole.size())
        << size;
  EXPECT_FALSE(is_valid("\x0b"s));      // A group.
  EXPECT_FALSE(is_valid("\x00\x01"s));  // Field 0.
  EXPECT_FALSE(is_valid("\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"s + "\x80"s));
  EXPECT_FALSE(is_valid("\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"s));  // A length beyond the end.
}

}  // namespace
}  // namespace penstock::core::protobuf
