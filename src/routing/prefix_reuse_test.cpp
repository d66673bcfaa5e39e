#include "routing/prefix_reuse.h"

#include <gtest/gtest.h>

namespace penstock::routing {
namespace {

using namespace std::chrono_literals;

TEST(PrefixReuse, NothingIsExpectedWithoutSharedPrefixes) {
  PrefixReuse reuse;
  EXPECT_EQ(reuse.probability(0s), 0.0);
  for (int i = 0; i < 100; ++i) reuse.sent(5'000, 0, 0s, core::kStart + i * 1s);
  EXPECT_EQ(reuse.probability(0s), 0.0);
}

// Sessions of ten turns of 1,000 tokens each. A turn follows the last one after 40 s.
TEST(PrefixReuse, APrefixThatIsIdleForLongerThanUsualIsNotUsedAgain) {
  PrefixReuse reuse;
  for (int session = 0; session < 20; ++session)
    for (std::uint32_t turn = 0; turn < 10; ++turn)
      reuse.sent(1'000 * (turn + 1), 1'000 * turn, 40s, core::kStart + session * 10s + turn * 40s);
  EXPECT_NEAR(reuse.probability(0s), 45.0 / 55.0, 1e-3);
  EXPECT_EQ(reuse.probability(0s), reuse.probability(40s));
  EXPECT_EQ(reuse.probability(64s), 0.0);
}

TEST(PrefixReuse, TheLongerAPrefixIsIdleTheLessLikelyItIsUsedAgain) {
  PrefixReuse reuse;
  for (int i = 0; i < 1'000; ++i) reuse.sent(100, 60, (1 + i % 500) * 1s, core::kStart + i * 1s);
  double last = 0.6 + 1e-9;
  for (int seconds = 0; seconds < 600; seconds += 7) {
    EXPECT_LE(reuse.probability(seconds * 1s), last) << seconds;
    last = reuse.probability(seconds * 1s);
  }
  EXPECT_EQ(last, 0.0);
}

TEST(PrefixReuse, EarlierTrafficFades) {
  PrefixReuse reuse;
  for (int i = 0; i < 100; ++i) reuse.sent(100, 100, 5s, core::kStart);
  EXPECT_NEAR(reuse.probability(5s), 1.0, 1e-9);
  for (int i = 0; i < 100; ++i) reuse.sent(100, 0, 0s, core::kStart + 2 * PrefixReuse::kFades);
  EXPECT_NEAR(reuse.probability(5s), 0.135 / 1.135, 1e-3);
}

TEST(PrefixReuse, AnyIdleTimeIsCounted) {
  PrefixReuse reuse;
  reuse.sent(100, 40, -1s, core::kStart);
  reuse.sent(100, 40, core::Duration::max(), core::kStart);
  EXPECT_NEAR(reuse.probability(core::Duration::min()), 0.4, 1e-9);
  EXPECT_NEAR(reuse.probability(core::Duration::max()), 0.25, 1e-9);
}

}  // namespace
}  // namespace penstock::routing
