#include "controller/decision_events.h"

#include <gtest/gtest.h>

namespace penstock::controller {
namespace {

using decision::Limit;
using decision::Reason;

decision::DecisionRecord record(std::uint32_t current, std::uint32_t target, Reason reason, Limit limit) {
  decision::DecisionRecord made;
  made.pool = "chat";
  made.current = current;
  made.target = target;
  made.reason = reason;
  made.limited_by = limit;
  return made;
}

const connect::ObjectReference kObject{"apps/v1", "Deployment", "prod", "chat", "u"};

TEST(DecisionEvents, ChangesAndHeldDecisionsAreEvents) {
  auto grown = record(3, 5, Reason::kSloAtRisk, Limit::kMaxReplicas);
  grown.diagnosis = "requests wait";
  const auto up = decision_event(grown, kObject);
  ASSERT_TRUE(up);
  EXPECT_EQ(up->regarding, kObject);
  EXPECT_EQ(up->reason, "ScaleUpDecided");
  EXPECT_EQ(up->action, "Scale");
  EXPECT_FALSE(up->is_warning);
  EXPECT_EQ(up->note,
            "pool chat: from 3 to 5 replicas: the SLO is at risk; limited by the maximum replicas of the pool; "
            "requests wait");
  EXPECT_EQ(decision_event(record(5, 4, Reason::kSloMet, Limit::kNone), kObject)->reason, "ScaleDownDecided");
  const auto held = decision_event(record(5, 5, Reason::kSloMet, Limit::kCooldown), kObject);
  ASSERT_TRUE(held);
  EXPECT_EQ(held->reason, "ScalingHeld");
  EXPECT_EQ(held->action, "Hold");
  EXPECT_TRUE(decision_event(record(5, 5, Reason::kNoData, Limit::kNone), kObject)->is_warning);
}

TEST(DecisionEvents, WhatNeedsNoChangeIsNoEvent) {
  EXPECT_FALSE(decision_event(record(5, 5, Reason::kSloMet, Limit::kNone), kObject));
  EXPECT_FALSE(decision_event(record(5, 5, Reason::kFollower, Limit::kNone), kObject));
}

}  // namespace
}  // namespace penstock::controller
