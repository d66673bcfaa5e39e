#include "core/state_archive.h"

#include <gtest/gtest.h>

#include <limits>

namespace penstock::core {
namespace {

struct Inner {
  Instant at;
  std::optional<double> value;
  void archive(StateArchive& state) { state.values_of(at, value); }
  bool operator==(const Inner&) const = default;
};

struct Sample {
  bool flag = false;
  std::uint64_t count = 0;
  double share = 0.0;
  float small = 0.0F;
  Duration wait{};
  std::vector<Inner> inner;
  std::deque<double> window;
  std::map<std::vector<std::uint32_t>, Inner> by_fleet;
  std::array<int, 2> pair{};
  void archive(StateArchive& state) {
    state("sample", flag, count, share, small, wait, inner);
    state("more", window, by_fleet, pair);
  }
  bool operator==(const Sample&) const = default;
};

Sample sample() {
  return {true,
          std::numeric_limits<std::uint64_t>::max(),
          0.1,
          0.3F,
          std::chrono::seconds{-5},
          {{kStart + std::chrono::seconds{3}, 1e-300}, {kNever, std::nullopt}},
          {1.0 / 3.0, -0.0, std::numeric_limits<double>::infinity()},
          {{{1, 2}, {kStart, 7.0}}, {{}, {}}},
          {-1, 2}};
}

std::string saved(Sample value) {
  StateArchive state;
  value.archive(state);
  return state.text();
}

std::string error_of(const std::string& text) {
  StateArchive state{text};
  Sample read;
  read.archive(state);
  const auto done = state.finish();
  return done ? "" : done.error().what;
}

TEST(StateArchive, WhatIsSavedReadsBackToTheSameBits) {
  const std::string text = saved(sample());
  StateArchive state{text};
  Sample read;
  read.archive(state);
  ASSERT_TRUE(state.finish()) << state.finish().error().message();
  EXPECT_EQ(read, sample());
  EXPECT_EQ(saved(read), text);
}

TEST(StateArchive, InvalidTextIsAnError) {
  const std::string text = saved(sample());
  EXPECT_EQ(error_of(text), "");
  EXPECT_EQ(error_of(""), "ends too early");
  EXPECT_EQ(error_of(text + " 7"), "has more values than expected");
  EXPECT_EQ(error_of("other" + text.substr(6)), "is followed by another part than sample");
  EXPECT_EQ(error_of("sample 1 x"), "sample: a whole number is expected");
  EXPECT_EQ(error_of("sample 1 2 0.5 0.5 9 999999"), "sample: a list is longer than its text");
  for (std::size_t length = 0; length < text.size(); ++length)
    if (text[length] == ' ') {
      EXPECT_NE(error_of(text.substr(0, length)), "") << length;
    }
}

TEST(StateArchive, ElementsKeepTheirNumber) {
  std::vector<int> two{1, 2}, three{1, 2, 3};
  StateArchive write;
  write.elements(two);
  StateArchive read{write.text()};
  read.elements(three);
  EXPECT_FALSE(read.finish());
}

}  // namespace
}  // namespace penstock::core
