#include "workload/decompress.h"

#include <gtest/gtest.h>

#include <functional>

#include "workload/reader_testing.h"

namespace penstock::workload {
namespace {

using testing::Bytes;

// Everything that comes out, or the error.
std::string unpack(const Bytes& packed, std::size_t piece_bytes = 1 << 16) {
  auto source = decompress("t.csv.xz", bytes_in_memory(packed));
  if (!source) return source.error().message();
  std::string text;
  Bytes piece(piece_bytes);
  while (true) {
    const auto count = (*source)->read(piece);
    if (!count) return count.error().message();
    if (*count == 0) return text;
    text.append(piece.begin(), piece.begin() + static_cast<std::ptrdiff_t>(*count));
  }
}

std::string long_text() {
  std::string text;
  for (int i = 0; i < 40'000; ++i) text += std::to_string(i * 7919) + ",";
  return text;
}

struct Packer {
  const char* name;
  std::function<Bytes(std::string_view)> pack;
};
const std::vector<Packer> kPackers = {{"gzip", [](std::string_view text) { return testing::gzip(text); }},
                                      {"xz", [](std::string_view text) { return testing::xz(text); }},
                                      {"zstd", [](std::string_view text) { return testing::zstd(text); }}};

TEST(Decompress, EveryPackingGivesBackItsText) {
  const std::string text = long_text();
  EXPECT_EQ(unpack(Bytes(text.begin(), text.end())), text);
  for (const auto& packer : kPackers) {
    EXPECT_EQ(unpack(packer.pack(text)), text) << packer.name;
    EXPECT_EQ(unpack(packer.pack(text), 7), text) << packer.name;
    EXPECT_EQ(unpack(packer.pack("")), "") << packer.name;
  }
  EXPECT_EQ(unpack({}), "");
  EXPECT_EQ(unpack({0x1f}), "\x1f");
}

TEST(Decompress, MembersThatFollowOneAnotherAreOneText) {
  for (const auto& packer : kPackers) {
    Bytes two = packer.pack("first,");
    const Bytes second = packer.pack("second");
    two.insert(two.end(), second.begin(), second.end());
    EXPECT_EQ(unpack(two), "first,second") << packer.name;
  }
}

TEST(Decompress, ZstdMayBeginWithASkippableFrame) {
  Bytes packed = {0x50, 0x2a, 0x4d, 0x18, 2, 0, 0, 0, 0xaa, 0xbb};
  const Bytes frame = testing::zstd("text");
  packed.insert(packed.end(), frame.begin(), frame.end());
  EXPECT_EQ(unpack(packed), "text");
}

TEST(Decompress, FilesThatCannotBeTracesAreNamed) {
  const auto refused = [](std::string_view bytes) { return unpack(Bytes(bytes.begin(), bytes.end())); };
  using namespace std::string_view_literals;
  EXPECT_EQ(refused("BZh91AY&SY"), "t.csv.xz: is compressed with bzip2; unpack it: bzip2 -d");
  EXPECT_EQ(refused("PK\3\4\x14\0"sv),
            "t.csv.xz: is a ZIP archive or a workbook; unpack it, or export the table as CSV");
  EXPECT_EQ(refused("PAR1\x15\4"), "t.csv.xz: is a Parquet file; export it as CSV");
  for (const auto bytes : {"\xff\xfet\0i\0"sv, "\xfe\xff\0t\0i"sv, "t\0i\0m\0"sv, "\0t\0i\0m"sv})
    EXPECT_EQ(refused(bytes), "t.csv.xz: is UTF-16; convert it to UTF-8: iconv -f UTF-16 -t UTF-8");
  EXPECT_EQ(refused("BZ"), "BZ");
}

TEST(Decompress, EveryTruncationIsDetected) {
  for (const auto& packer : kPackers) {
    const Bytes whole = packer.pack(long_text().substr(0, 2000));
    for (std::size_t size = 6; size < whole.size(); size += 11)
      EXPECT_EQ(unpack(Bytes(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size))),
                std::string{"t.csv.xz: the "} + packer.name + " data ends early; copy or download the file again")
          << size;
  }
}

TEST(Decompress, DamageIsReported) {
  for (const auto& packer : kPackers) {
    Bytes damaged = packer.pack(long_text());
    damaged[damaged.size() / 2] ^= 0x40;
    EXPECT_EQ(unpack(damaged),
              std::string{"t.csv.xz: the "} + packer.name + " data is damaged; copy or download the file again");
  }
}

TEST(Decompress, TextBehindThePackedDataIsDamage) {
  for (const auto& packer : kPackers) {
    Bytes packed = packer.pack("text");
    packed.resize(packed.size() + 64, '!');
    EXPECT_EQ(unpack(packed),
              std::string{"t.csv.xz: the "} + packer.name + " data is damaged; copy or download the file again");
  }
}

TEST(Decompress, LongZstdWindowsAreReadUpToTheLimit) {
  EXPECT_EQ(unpack(testing::zstd_claiming("text", kZstdWindowLogMax)), "text");
  EXPECT_EQ(unpack(testing::zstd_claiming("text", kZstdWindowLogMax + 1)),
            "t.csv.xz: the zstd data needs more than 128 MiB to unpack; pack it with a smaller window");
}

TEST(Decompress, XzThatAsksForTooMuchMemoryIsRefused) {
  constexpr std::uint8_t kIs64MiB = 28, kIs192MiB = 31;
  EXPECT_EQ(unpack(testing::xz_claiming("text", kIs64MiB)), "text");
  EXPECT_EQ(unpack(testing::xz_claiming("text", kIs192MiB)),
            "t.csv.xz: the xz data needs more than 160 MiB to unpack; pack it with a smaller window");
}

}  // namespace
}  // namespace penstock::workload
