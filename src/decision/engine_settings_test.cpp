#include "decision/engine_settings.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>

namespace penstock::decision {
namespace {

std::string rules_against(Cause cause) {
  std::string rules;
  for (const EngineSetting& each : settings_against(cause))
    rules += (rules.empty() ? "" : " ") + std::string{each.rule};
  return rules;
}

TEST(EngineSettings, ACauseThatTheEngineCanInfluenceHasSettings) {
  EXPECT_EQ(rules_against(Cause::kKvPressure), "kv_reserve precision");
  EXPECT_EQ(rules_against(Cause::kPreemption), rules_against(Cause::kKvPressure));
  EXPECT_EQ(rules_against(Cause::kDecodeBatch), "precision kv_reserve");
  EXPECT_EQ(rules_against(Cause::kPrefill), "gpu_by_phase precision");
  EXPECT_EQ(rules_against(Cause::kColdStart), "weights_cache");
}

TEST(EngineSettings, HealthyLatencyAtHighUtilisationAllowsMoreQueueDelay) {
  const signals::SloTarget slo{std::chrono::seconds{2}, std::chrono::milliseconds{50}};
  EXPECT_EQ(queue_delay_evidence(slo, {1.5, 0.03, 0.9, {}, {}}),
            "the p95 of TTFT is 75 % and that of ITL 60 % of its limit, at 90 % utilisation");
  EXPECT_FALSE(queue_delay_evidence(slo, {1.7, 0.03, 0.9, {}, {}}));
  EXPECT_FALSE(queue_delay_evidence(slo, {1.5, 0.03, 0.7, {}, {}}));
  EXPECT_FALSE(queue_delay_evidence(slo, {1.5, {}, 0.9, {}, {}})) << "missing is not zero";
}

TEST(EngineSettings, ABatchEfficiencyThatFellByATenthAsksForMoreConcurrency) {
  EXPECT_EQ(batch_efficiency_evidence({{}, {}, {}, 0.3, 0.5}),
            "30 % of the sequence slots are filled, before it was 50 %");
  EXPECT_FALSE(batch_efficiency_evidence({{}, {}, {}, 0.46, 0.5}));
  EXPECT_FALSE(batch_efficiency_evidence({{}, {}, {}, 0.3, {}}));
}

TEST(EngineSettings, OtherCausesHaveNone) {
  for (const Cause cause : {Cause::kNone, Cause::kUnknown, Cause::kQueue, Cause::kRoutingCache, Cause::kAdmission,
                            Cause::kTransfer, Cause::kEarlySigns, Cause::kClient})
    EXPECT_EQ(rules_against(cause), "") << to_string(cause);
}

TEST(EngineSettings, EachNamesFlags) {
  for (const std::string_view cause : names_of<Cause>())
    for (const EngineSetting& each : settings_against(*parse_name<Cause>(cause))) {
      EXPECT_FALSE(each.advice.empty()) << each.rule;
      EXPECT_TRUE(each.vllm.starts_with("--")) << each.rule;
      EXPECT_TRUE(each.sglang.starts_with("--")) << each.rule;
    }
}

}  // namespace
}  // namespace penstock::decision
