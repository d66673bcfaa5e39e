#include "connect/kubernetes/backoff.h"

#include <gtest/gtest.h>

#include <vector>

namespace penstock::connect {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(Backoff, DoublesUpToItsLimitAndHalfOfItIsRandom) {
  Backoff backoff{{milliseconds{100}, seconds{1}}, core::RandomStream{7}};
  for (const int full_ms : {100, 200, 400, 800, 1000, 1000, 1000}) {
    const auto delay = backoff.next();
    EXPECT_GE(delay, milliseconds{full_ms} / 2);
    EXPECT_LE(delay, milliseconds{full_ms});
  }
  backoff.reset();
  EXPECT_LE(backoff.next(), milliseconds{100});
}

TEST(Backoff, NeverComesBeforeRetryAfter) {
  Backoff backoff{{milliseconds{100}, seconds{1}}, core::RandomStream{7}};
  const auto delay = backoff.next(seconds{5});
  EXPECT_GE(delay, seconds{5});
  EXPECT_LE(delay, milliseconds{5050});
}

TEST(Backoff, ClientsWithOtherSeedsComeAtOtherTimes) {
  Backoff one{{}, core::RandomStream{1}}, same{{}, core::RandomStream{1}}, other{{}, core::RandomStream{2}};
  const auto delay = one.next();
  EXPECT_EQ(same.next(), delay);
  EXPECT_NE(other.next(), delay);
}

TEST(RequestRate, LetsABurstGoAndThenTheRate) {
  RequestRate rate{10.0, 5};
  for (int i = 0; i < 5; ++i) EXPECT_EQ(rate.take(core::kStart, seconds{30}), core::Duration{0});
  for (int i = 1; i <= 20; ++i) EXPECT_EQ(rate.take(core::kStart, seconds{30}), milliseconds{100 * i});
  // After a long pause there is one burst, not more.
  const core::Instant later = core::kStart + seconds{3600};
  for (int i = 0; i < 5; ++i) EXPECT_EQ(rate.take(later, seconds{30}), core::Duration{0});
  EXPECT_EQ(rate.take(later, seconds{30}), milliseconds{100});
}

TEST(RequestRate, NeverExceedsItsLimitInAnyWindow) {
  core::RandomStream random{3};
  RequestRate rate{20.0, 10};
  core::Instant now = core::kStart;
  std::vector<core::Instant> sent;
  for (int i = 0; i < 2000; ++i) {
    now += core::from_milliseconds(random.exponential(25.0));
    sent.push_back(now + *rate.take(now, seconds{3600}));
  }
  for (std::size_t first = 0; first < sent.size(); ++first)
    for (std::size_t last = first; last < sent.size() && sent[last] - sent[first] <= seconds{1}; ++last)
      ASSERT_LE(last - first + 1, 31U);  // 10 at once, 20 in one second, and one at its end.
}

TEST(RequestRate, RefusesWhatWouldWaitTooLong) {
  RequestRate rate{1.0, 1};
  EXPECT_TRUE(rate.take(core::kStart, seconds{2}));
  EXPECT_EQ(rate.take(core::kStart, seconds{2}), seconds{1});
  EXPECT_EQ(rate.take(core::kStart, seconds{2}), seconds{2});
  EXPECT_EQ(rate.take(core::kStart, seconds{2}), std::nullopt);
  EXPECT_EQ(rate.take(core::kStart + seconds{1}, seconds{2}), seconds{2});
}

}  // namespace
}  // namespace penstock::connect
