#include "dispatch/traffic_log.h"

#include <gtest/gtest.h>

namespace penstock::dispatch {
namespace {

void add(TrafficLog& log, std::uint64_t count) {
  for (std::uint64_t i = 0; i < count; ++i) log.add(TrafficEvent{});
}

TEST(TrafficLog, PagesFollowEachOtherWithoutGaps) {
  TrafficLog log;
  add(log, 25);
  std::uint64_t seen = 0;
  for (std::uint64_t next = 0;;) {
    const TrafficLog::Page page = log.after(next, 10);
    EXPECT_EQ(page.lost, 0U);
    if (page.events.empty()) break;
    EXPECT_EQ(page.events.front().sequence, seen + 1);
    seen = page.events.back().sequence;
    next = page.next;
    EXPECT_EQ(next, seen);
  }
  EXPECT_EQ(seen, 25U);
}

TEST(TrafficLog, ReportsTheNumberOfMissedEvents) {
  TrafficLog log;
  add(log, TrafficLog::kEventsMax + 7);
  const TrafficLog::Page page = log.after(2, 10);
  EXPECT_EQ(page.lost, 5U);
  EXPECT_EQ(page.events.front().sequence, 8U);
}

TEST(TrafficLog, ANumberOfAnEarlierRunStartsFromTheBeginning) {
  TrafficLog log;
  add(log, 3);
  EXPECT_EQ(log.after(1000, 10).events.size(), 3U);
  EXPECT_TRUE(TrafficLog{}.after(0, 10).events.empty());
  EXPECT_EQ(TrafficLog{}.after(0, 10).next, 0U);
}

TEST(TrafficLog, LimitsTheNumberOfKeys) {
  TrafficLog log;
  TrafficEvent event;
  event.keys.resize(1000);
  log.add(event);
  EXPECT_EQ(log.after(0, 1).events.front().keys.size(), TrafficEvent::kKeysMax);
}

}  // namespace
}  // namespace penstock::dispatch
