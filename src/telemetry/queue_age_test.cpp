#include "telemetry/queue_age.h"

#include <gtest/gtest.h>

namespace penstock::telemetry {
namespace {

using namespace std::chrono_literals;

core::Instant at_s(double seconds) { return core::kStart + core::from_seconds(seconds); }

EngineScrape queued(std::uint64_t requests) {
  EngineScrape scrape;
  scrape.queued_requests = requests;
  return scrape;
}
EngineScrape with_ends(EngineScrape scrape, std::uint64_t completed) {
  scrape.completed_total = completed;
  return scrape;
}
EngineScrape with_queue_times(EngineScrape scrape, std::uint64_t count, double sum) {
  Histogram histogram;
  histogram.counts = {count};
  histogram.sum = sum;
  scrape.queue_s = histogram;
  return scrape;
}

TEST(QueueAge, IsZeroForAnEmptyQueueOfAnyMake) {
  QueueAge age;
  EXPECT_EQ(age.observe(queued(0), at_s(1)), 0s);
  EXPECT_EQ(age.observe(EngineScrape{}, at_s(2)), std::nullopt);
}

TEST(QueueAge, IsWhatTheEngineReports) {
  QueueAge age;
  EngineScrape scrape = queued(3);
  scrape.oldest_queued_s = 1.5;
  EXPECT_EQ(age.observe(scrape, at_s(1)), 1500ms);
}

TEST(QueueAge, IsUnknownWithoutCounters) {
  QueueAge age;
  for (int second = 1; second < 100; ++second) EXPECT_EQ(age.observe(queued(40), at_s(second)), std::nullopt);
}

TEST(QueueAge, FollowsLittlesLawWhereOnlyEndsAreCounted) {
  QueueAge age;
  EXPECT_EQ(age.observe(with_ends(queued(40), 100), at_s(0)), std::nullopt);
  EXPECT_EQ(age.observe(with_ends(queued(40), 110), at_s(5)), 20s);  // 40 requests at 2/s
}

TEST(QueueAge, IsTheMeanTimeInTheQueueIfThatIsLonger) {
  QueueAge age;
  (void)age.observe(with_queue_times(queued(1), 10, 5.0), at_s(0));
  EXPECT_EQ(age.observe(with_queue_times(queued(1), 20, 95.0), at_s(5)), 9s);  // 1 request at 2/s would be 0.5 s.
}

TEST(QueueAge, IsAtMostTheTimeSinceTheQueueWasEmpty) {
  QueueAge age;
  EXPECT_EQ(age.observe(with_ends(queued(0), 100), at_s(10)), 0s);
  EXPECT_EQ(age.observe(with_ends(queued(40), 101), at_s(12)), 2s);  // Little's law would give 80 s.
}

TEST(QueueAge, GrowsWhileNothingLeavesTheQueue) {
  QueueAge age;
  EXPECT_EQ(age.observe(with_ends(queued(0), 100), at_s(10)), 0s);
  for (int second = 1; second < 60; ++second)
    EXPECT_EQ(age.observe(with_ends(queued(2), 100), at_s(10.0 + second)), second * 1s);
}

TEST(QueueAge, StartsAnewWithARestartedEngine) {
  QueueAge age;
  (void)age.observe(with_ends(queued(4), 100), at_s(0));
  EXPECT_EQ(age.observe(with_ends(queued(4), 3), at_s(5)), std::nullopt);
  EXPECT_EQ(age.observe(with_ends(queued(4), 5), at_s(6)), 2s);
}

}  // namespace
}  // namespace penstock::telemetry
