#include <gtest/gtest.h>

#include <filesystem>
#include <utility>

#include "dashboard/planner_daemon_testing.h"

namespace penstock::dashboard {
namespace {

using namespace controller;

TEST_F(PlannerDaemonTest, ARestartedPlannerContinuesWhereItStopped) {
  state_file = testing::TempDir() + "penstock-policy.json";
  std::filesystem::remove(state_file);
  open();
  run_until_decided(3);
  EXPECT_EQ(log.count(logging::Event::kPolicyState), 0U) << "there is no state yet";
  const std::size_t records = logged.size();
  const core::Instant before = policy.seen.now;
  for (const bool killed : {true, false}) {
    if (killed) std::filesystem::copy_file(state_file, state_file + ".copy");
    daemon.reset();
    if (killed) std::filesystem::rename(state_file + ".copy", state_file);
    const int decided = std::exchange(policy.decided, 0);
    open();
    EXPECT_GE(policy.decided, decided - 1);
    EXPECT_GE(policy.decided, 3);
    run_until_decided();
    EXPECT_GT(policy.seen.now, before);
    EXPECT_EQ(logged.size(), records) << "the hold is known from before";
  }
  EXPECT_EQ(log.lines(logging::Event::kPolicyState), (std::vector<std::string>(2, "policy_state message=restored")));
}

}  // namespace
}  // namespace penstock::dashboard
