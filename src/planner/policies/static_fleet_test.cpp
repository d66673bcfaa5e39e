#include <gtest/gtest.h>

#include "planner/planner_testing.h"

namespace penstock::planner {
namespace {

using testing::Asker;
using testing::bounded;
using testing::engine;
using testing::pool_of;

TEST(StaticFleet, DecidesOnlyOnce) { EXPECT_EQ(Asker{"static"}.policy().interval(), core::Duration::max()); }
TEST(StaticFleet, KeepsItsSizeUnderAnyLoad) {
  Asker fleet{"static"};
  EXPECT_DECISION(fleet.ask(0, pool_of(3, engine(500, 256, 1000))), 3, kFixed, kNone);
  EXPECT_DECISION(fleet.ask(600, pool_of(3, engine(0))), 3, kFixed, kNone);
}
TEST(StaticFleet, KeepsItsSizeWithoutAnySample) {
  EXPECT_DECISION(Asker{"static"}.ask(0, testing::without_samples_of_last(pool_of(3, engine(0)), 3)), 3, kFixed, kNone);
}
TEST(StaticFleet, KeepsTheTargetWhileReplicasStart) {
  EXPECT_DECISION(Asker{"static"}.ask(0, testing::with_starting(pool_of(1, engine(0)), 2)), 3, kFixed, kNone);
}
TEST(StaticFleet, StaysWithinBoundsThatMoved) {
  EXPECT_DECISION(Asker{"static"}.ask(0, bounded(pool_of(3, engine(0)), 4, 8)), 4, kFixed, kMinReplicas);
  EXPECT_DECISION(Asker{"static"}.ask(0, bounded(pool_of(3, engine(0)), 1, 2)), 2, kFixed, kMaxReplicas);
}
TEST(StaticFleet, ReportsItsSize) {
  EXPECT_EQ(sentence(Asker{"static"}.ask(0, pool_of(3, engine(0)))), "target 3 replicas");
}

}  // namespace
}  // namespace penstock::planner
