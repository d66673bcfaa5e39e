#include "profiling/traffic_check.h"

#include <gtest/gtest.h>

namespace penstock::profiling {
namespace {

telemetry::EngineScrape scrape(std::uint64_t running, std::uint64_t completed, std::uint64_t prompt_tokens) {
  telemetry::EngineScrape made;
  made.running_requests = running;
  made.queued_requests = 0;
  made.completed_total = completed;
  made.prompt_tokens_total = prompt_tokens;
  return made;
}

TEST(TrafficCheck, OwnRequestsAreNoTraffic) {
  TrafficCheck check;
  EXPECT_EQ(check.take(scrape(0, 50, 9000)), std::nullopt);
  check.record_ours(4, 4000);
  EXPECT_EQ(check.take(scrape(0, 52, 11'000)), std::nullopt);  // The counters lag behind.
  EXPECT_EQ(check.take(scrape(0, 54, 13'030)), std::nullopt);
}

TEST(TrafficCheck, RequestInFlightIsOfOthers) {
  TrafficCheck check;
  EXPECT_TRUE(TrafficCheck::is_busy(scrape(1, 0, 0)));
  EXPECT_EQ(check.take(scrape(1, 0, 0)), "1 other request is in flight");
}

TEST(TrafficCheck, ShortRequestsBetweenTwoScrapesAreCounted) {
  TrafficCheck check;
  EXPECT_EQ(check.take(scrape(0, 50, 9000)), std::nullopt);
  check.record_ours(4, 4000);
  EXPECT_EQ(check.take(scrape(0, 55, 13'000)), "1 of 5 requests since the start are not from this program");
  TrafficCheck tokens;
  EXPECT_EQ(tokens.take(scrape(0, 0, 0)), std::nullopt);
  tokens.record_ours(4, 4000);
  EXPECT_EQ(tokens.take(scrape(0, 4, 4500)), "500 of 4500 prompt tokens since the start are not from this program");
}

TEST(TrafficCheck, FiguresThatAreNotExposedAreNotChecked) {
  TrafficCheck check;
  EXPECT_EQ(check.take({}), std::nullopt);
  EXPECT_EQ(check.take({}), std::nullopt);
}

}  // namespace
}  // namespace penstock::profiling
