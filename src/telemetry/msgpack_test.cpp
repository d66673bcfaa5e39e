#include "telemetry/msgpack.h"

#include <gtest/gtest.h>

#include <limits>

#include "telemetry/golden_messages_testing.h"

namespace penstock::telemetry {
namespace {

template <class Write>
std::string written(Write write) {
  std::string bytes;
  MsgpackWriter writer(bytes);
  write(writer);
  return bytes;
}

TEST(Msgpack, WritesIntegersInTheirShortestForm) {
  const std::pair<std::int64_t, std::string_view> cases[] = {{0, "00"},
                                                             {127, "7f"},
                                                             {128, "cc80"},
                                                             {256, "cd0100"},
                                                             {65536, "ce00010000"},
                                                             {-1, "ff"},
                                                             {-32, "e0"},
                                                             {-33, "d0df"},
                                                             {-129, "d1ff7f"},
                                                             {-32769, "d2ffff7fff"},
                                                             {INT64_MIN, "d38000000000000000"},
                                                             {4294967296, "cf0000000100000000"}};
  for (const auto& [value, hex] : cases) {
    const std::string bytes = written([&](MsgpackWriter& writer) { writer.integer(value); });
    EXPECT_EQ(bytes, from_hex(hex)) << value;
    MsgpackReader reader(bytes);
    const auto read = reader.read_integer();
    ASSERT_TRUE(read) << value;
    EXPECT_EQ(static_cast<std::int64_t>(read->bits), value);
    EXPECT_EQ(read->negative, value < 0);
    EXPECT_TRUE(reader.at_end());
  }
}

TEST(Msgpack, ReadsTextAndContainersOfEveryWidth) {
  for (const std::size_t size : {0U, 31U, 32U, 255U, 256U, 65535U, 65536U}) {
    const std::string bytes = written([&](MsgpackWriter& writer) {
      writer.text(std::string(size, 'x'));
      writer.array(static_cast<std::uint32_t>(size));
      for (std::size_t i = 0; i < size; ++i) writer.nil();
      writer.map(static_cast<std::uint32_t>(size));
      for (std::size_t i = 0; i < 2 * size; ++i) writer.nil();
    });
    MsgpackReader reader(bytes), skipper(bytes);
    EXPECT_EQ(reader.read_text(), std::string(size, 'x'));
    EXPECT_EQ(reader.read_array(), size);
    for (int i = 0; i < 3; ++i) EXPECT_TRUE(skipper.skip());
    EXPECT_TRUE(skipper.at_end());
  }
}

TEST(Msgpack, DoesNotMoveOnAnotherType) {
  const std::string bytes = from_hex("a161");
  MsgpackReader reader(bytes);
  EXPECT_FALSE(reader.read_array());
  EXPECT_FALSE(reader.read_map());
  EXPECT_FALSE(reader.read_integer());
  EXPECT_FALSE(reader.read_number());
  EXPECT_FALSE(reader.read_binary());
  EXPECT_FALSE(reader.read_nil());
  EXPECT_EQ(reader.position(), 0U);
  EXPECT_EQ(reader.read_text(), "a");
}

TEST(Msgpack, RejectsMoreElementsThanBytes) {
  for (const std::string_view hex :
       {"ddffffffff00", "dfffffffff0000", "92c0", "81c0", "dc000100", "de0001c0", "d9ff61", "c6ffffffff"}) {
    const std::string bytes = from_hex(hex);
    MsgpackReader reader(bytes);
    if (hex == "dc000100") {
      EXPECT_EQ(reader.read_array(), 1U);
      continue;
    }
    EXPECT_FALSE(reader.read_array() || reader.read_map() || reader.read_text() || reader.read_binary()) << hex;
    EXPECT_FALSE(reader.skip()) << hex;
    EXPECT_EQ(reader.position(), 0U);
  }
}

TEST(Msgpack, SkipsAnyDepthWithoutRecursion) {
  std::string bytes(1'000'000, '\x91');
  bytes += '\xc0';
  MsgpackReader reader(bytes);
  EXPECT_TRUE(reader.skip());
  EXPECT_TRUE(reader.at_end());
}

TEST(Msgpack, SkipsUnusedTypes) {
  const std::string bytes = from_hex("c2c3d40100c70101ffd80100000000000000000000000000000000ca00000000c401ff");
  MsgpackReader reader(bytes);
  for (int i = 0; i < 7; ++i) EXPECT_TRUE(reader.skip()) << i;
  EXPECT_TRUE(reader.at_end());
  MsgpackReader never(std::string_view("\xc1", 1));
  EXPECT_FALSE(never.skip());
}

TEST(Msgpack, ReadsIntegersAndBothFloatsAsNumbers) {
  const std::string bytes = from_hex("ca3fc00000cb3ff800000000000007ff");
  MsgpackReader reader(bytes);
  EXPECT_EQ(reader.read_number(), 1.5);
  EXPECT_EQ(reader.read_number(), 1.5);
  EXPECT_EQ(reader.read_number(), 7.0);
  EXPECT_FALSE(reader.read_unsigned());
  EXPECT_EQ(reader.read_number(), -1.0);
}

}  // namespace
}  // namespace penstock::telemetry
