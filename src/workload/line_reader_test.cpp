#include "workload/line_reader.h"

#include <gtest/gtest.h>

#include "workload/reader_testing.h"

namespace penstock::workload {
namespace {

using Lines = std::vector<std::string>;

// Gives one byte at a time, so that lines are cut wherever they can be.
class Dripping final : public ByteSource {
 public:
  explicit Dripping(std::string text) : text_{std::move(text)} {}
  core::Result<std::size_t> read(std::span<std::uint8_t> buffer) override {
    if (at_ == text_.size()) return 0;
    buffer[0] = static_cast<std::uint8_t>(text_[at_++]);
    return 1;
  }

 private:
  std::string text_;
  std::size_t at_ = 0;
};

Lines lines_of(LineReader reader) {
  Lines lines;
  while (true) {
    const auto line = reader.next();
    if (!line) return lines.push_back(line.error().message()), lines;
    if (!*line) return lines;
    lines.push_back(std::to_string(reader.line()) + ":" + std::string{(*line)->substr(0, 20)});
  }
}
Lines lines_of(std::string_view text) { return lines_of(LineReader{"t", bytes_in_memory(testing::bytes_of(text))}); }

TEST(LineReader, LinesEndWithEitherLineEnd) {
  const Lines expected{"1:a", "2:b", "3:c"};
  EXPECT_EQ(lines_of("a\nb\nc\n"), expected);
  EXPECT_EQ(lines_of("a\r\nb\r\nc"), expected);
  EXPECT_EQ(lines_of(LineReader{"t", std::make_unique<Dripping>("a\nb\r\nc")}), expected);
  EXPECT_EQ(lines_of(""), Lines{});
}

TEST(LineReader, BlankLinesCountButAreNotReturned) {
  EXPECT_EQ(lines_of("\n \t\r\na\n\nb\n\n\n"), (Lines{"3:a", "5:b"}));
}

TEST(LineReader, ByteOrderMarkIsNoPartOfTheFirstLine) {
  EXPECT_EQ(lines_of("\xef\xbb\xbf"
                     "a\n\xef\xbb\xbf"
                     "b"),
            (Lines{"1:a",
                   "2:\xef\xbb\xbf"
                   "b"}));
}

TEST(LineReader, LineAsLongAsTheLimitPassesAndALongerOneIsAnError) {
  std::string text(kLineBytesMax, 'x');
  EXPECT_EQ(lines_of("a\n" + text + "\nb"), (Lines{"1:a", "2:xxxxxxxxxxxxxxxxxxxx", "3:b"}));
  text += 'x';
  EXPECT_EQ(lines_of("a\n" + text + "\nb"), (Lines{"1:a", "t:2: the line is longer than 16 MiB"}));
  EXPECT_EQ(lines_of(text), (Lines{"t:1: the line is longer than 16 MiB"}));
}

TEST(LineReader, EndlessLineIsRefusedAtTheLimit) {
  class Endless final : public ByteSource {
    core::Result<std::size_t> read(std::span<std::uint8_t> buffer) override {
      std::fill(buffer.begin(), buffer.end(), 'x');
      return buffer.size();
    }
  };
  EXPECT_EQ(lines_of(LineReader{"t", std::make_unique<Endless>()}), (Lines{"t:1: the line is longer than 16 MiB"}));
}

}  // namespace
}  // namespace penstock::workload
