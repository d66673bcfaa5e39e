#include "load/lengths.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

namespace penstock::load {
namespace {

TEST(LengthMix, OfOneNumberIsAlwaysThatNumber) {
  const auto mix = LengthMix::parse("4000");
  ASSERT_TRUE(mix) << mix.error().message();
  core::RandomStream random{1};
  for (int i = 0; i < 100; ++i) EXPECT_EQ(mix->draw(random), 4000U);
}

TEST(LengthMix, OfARangeHasAsManyInEachDoubling) {
  const auto mix = LengthMix::parse("100..1600");
  ASSERT_TRUE(mix) << mix.error().message();
  core::RandomStream random{1};
  std::map<int, int> doublings;
  for (int i = 0; i < 40'000; ++i) {
    const auto tokens = mix->draw(random);
    ASSERT_GE(tokens, 100U);
    ASSERT_LE(tokens, 1600U);
    ++doublings[tokens < 200 ? 0 : tokens < 400 ? 1 : tokens < 800 ? 2 : 3];
  }
  for (const auto& [doubling, count] : doublings) EXPECT_NEAR(count, 10'000, 400) << doubling;
}

TEST(LengthMix, OfWeightsKeepsItsShares) {
  const auto mix = LengthMix::parse("500:70%, 4000:0.25, 16000..17000:5%");
  ASSERT_TRUE(mix) << mix.error().message();
  core::RandomStream random{7};
  int small = 0, middle = 0, large = 0;
  for (int i = 0; i < 20'000; ++i) {
    const auto tokens = mix->draw(random);
    (tokens == 500 ? small : tokens == 4000 ? middle : large) += 1;
    ASSERT_TRUE(tokens == 500 || tokens == 4000 || (tokens >= 16'000 && tokens <= 17'000)) << tokens;
  }
  EXPECT_NEAR(small, 14'000, 300);
  EXPECT_NEAR(middle, 5'000, 300);
  EXPECT_NEAR(large, 1'000, 150);
}

TEST(LengthMix, KnowsItsLongest) {
  EXPECT_EQ(LengthMix{1000}.longest(), 1000U);
  EXPECT_EQ(LengthMix::parse("16000..17000:5%,500:95%")->longest(), 17'000U);
}

TEST(LengthMix, SaysWhatIsWrong) {
  for (const auto& [text, says] : {std::pair{"", ""},
                                   {"0", ""},
                                   {"abc", ""},
                                   {"8000..100", "from the smaller to the larger"},
                                   {"500:70%,4000:20%", "add up to 90.0%"},
                                   {"500,4000", "has no share"},
                                   {"500:70%,4000", "has no share"},
                                   {"1..99999999999", ""},
                                   {"5..", ""}}) {
    const auto mix = LengthMix::parse(text);
    ASSERT_FALSE(mix) << text;
    EXPECT_NE(mix.error().message().find(says), std::string::npos) << mix.error().message();
  }
}

}  // namespace
}  // namespace penstock::load
