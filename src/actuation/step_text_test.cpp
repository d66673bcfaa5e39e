#include "actuation/step_text.h"

#include <gtest/gtest.h>

namespace penstock::actuation {
namespace {

TEST(StepText, SaysWhatHappensToAReplicaAndWhy) {
  EXPECT_EQ(sentence(StepKind::kStart, "chat-2", StepReason::kBelowTarget),
            "chat-2 starts: the pool has fewer replicas than its target");
  EXPECT_EQ(sentence(StepKind::kWarmUp, "chat-1", StepReason::kHealthy), "chat-1 is warmed up: it is healthy");
  EXPECT_EQ(sentence(StepKind::kKill, "chat-3", StepReason::kStopDeadline),
            "chat-3 is killed: it did not end before the stop deadline");
  EXPECT_EQ(sentence(PodStepKind::kMark, "chat-x2"), "chat-x2 receives no new requests: it is to be removed");
  EXPECT_EQ(sentence(PodStepKind::kScale, ""), "");
  EXPECT_EQ(sentence(PodStepKind::kMove, "chat-x2"), "chat-x2 goes to the other pool: it has its new role");
}

TEST(StepText, HasNoNamesOfEnums) {
  for (int kind = 0; kind <= static_cast<int>(StepKind::kKill); ++kind)
    for (int why = 0; why <= static_cast<int>(StepReason::kResumed); ++why)
      EXPECT_EQ(sentence(static_cast<StepKind>(kind), "r", static_cast<StepReason>(why)).find('_'), std::string::npos);
}

}  // namespace
}  // namespace penstock::actuation
