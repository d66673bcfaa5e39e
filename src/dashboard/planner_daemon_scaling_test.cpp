#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "dashboard/planner_daemon_testing.h"

namespace penstock::dashboard {
namespace {

using namespace controller;

// After a change of the SLO the traffic is read again, as far as the gateway remembers it.
TEST_F(PlannerDaemonTest, AReloadDuringScalingCountsTheEndOfEachRequestOnce) {
  fleet.views = {view(sample())};
  const core::Instant begun = loop.now();
  const auto now_s = [&] { return 5.0 + core::to_seconds(loop.now() - begun); };
  std::vector<std::string> events;
  const auto fail = [&](int requests) {
    for (int i = 0; i < requests; ++i)
      events.push_back(fmt::format(R"(["end",{},{},"failed","r1",900,0,-1.0])", events.size(), now_s()));
  };
  std::ptrdiff_t sent = 0, forgotten = 0;
  int reads_of_all = 0;
  gateway.answer_traffic = [&](std::string_view target) {
    const bool is_first = target.ends_with("after=0");
    if (is_first) ++reads_of_all;
    const auto next = events.begin() + (is_first ? forgotten : sent);
    sent = static_cast<std::ptrdiff_t>(events.size());
    return fmt::format(R"({{"boot":"b","now_s":{},"next":{},"lost":0,"events":[{}]}})", now_s(), sent,
                       fmt::join(next, events.end(), ","));
  };
  open(true);
  const auto until = [&](auto holds) { EXPECT_TRUE(run_until(loop, holds)); };
  fail(5);
  until([&] { return daemon->traffic().ends().failed == 5; });
  fleet.target = 2;  // and one is ready
  until([&] { return daemon->scaling().events().size() == 1; });
  fail(7);
  const auto failed = [&] { return daemon->scaling().totals().at(0).ends.failed; };
  until([&] { return failed() == 7; });

  forgotten = 9;
  reads_of_all = 0;
  daemon->reconfigure(daemon->options(), std::make_unique<ScriptedPolicy>(), true);
  until([&] { return daemon->traffic().ends().failed == 3; });
  EXPECT_EQ(failed(), 7U);
  until([&, asked = gateway.asked.size()] { return gateway.asked.size() > asked + 8; });
  EXPECT_EQ(reads_of_all, 1);
  EXPECT_EQ(failed(), 7U);
  fail(2);
  until([&] { return failed() != 7; });
  EXPECT_EQ(failed(), 9U);
}

}  // namespace
}  // namespace penstock::dashboard
