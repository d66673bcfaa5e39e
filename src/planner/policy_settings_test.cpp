#include "planner/policy_settings.h"

#include <gtest/gtest.h>

#include "planner/hpa_targets.h"
#include "planner/planner_testing.h"

namespace penstock::planner {
namespace {

using testing::Asker;
using testing::engine;
using testing::pool_of;
using testing::with_arrivals;

std::string error_of(std::string_view policy) {
  const auto settings = settings_of(policy);
  return settings ? "none" : settings.error().message();
}

TEST(PolicySettings, TheUtilisationMovesTheTarget) {
  // A replica carries 2.5 requests/s. At 40 % the target is 1, and 420 a minute are 7: seven replicas instead of four.
  PolicyContext context;
  context.capacity.requests_per_s = 2.5;
  const auto pool = with_arrivals(pool_of(5, engine(0)), 420);
  EXPECT_EQ(Asker("hpa-rate:utilisation=40%", context).ask(60, pool).target, 7U);
  EXPECT_EQ(Asker("hpa-rate:utilisation=0.7", context).ask(60, pool).target, 5U);  // 4 is the result of 0.8.
}
TEST(PolicySettings, TheThresholdsOfLlmdSloMove) {
  PolicyContext context;
  context.slo = {std::chrono::seconds{2}, std::chrono::milliseconds{50}};
  auto pool = pool_of(4, engine(0));
  pool.last_minute.ttft.count = 10;
  pool.last_minute.ttft.p90_ms = 1000.0;  // Half of the target: between 0.40 and 0.55.
  EXPECT_EQ(Asker("llmd-slo", context).ask(60, pool).target, 4U);
  Asker lower("llmd-slo:up=0.4:down=0.2", context);
  for (double now = 60; now <= 120; now += 15) (void)lower.ask(now, pool);  // Its HPA waits for 30 s.
  EXPECT_DECISION(lower.ask(135, pool), 5, kSloAtRisk, kNone);
}
TEST(PolicySettings, TheKvUseOfApaMoves) {
  // Four replicas at 30 % of their KV cache: fewer at the default of 50 %. At 10 % ceil(4 · 3) is 12, and the limit of
  // one step is twice as many.
  const auto pool = pool_of(4, testing::with_kv(0.3));
  EXPECT_LT(Asker("apa", {}).ask(0, pool).target, 4U);
  EXPECT_EQ(Asker("apa:kv=10%", {}).ask(0, pool).target, 8U);
}
TEST(PolicySettings, RulesHaveTheSettingsThatTheEvaluationSweeps) {
  for (const char* policy : {"apa:kv=0.2", "llmd-saturation-v2:up=0.5", "llmd-saturation-v2:up=0.5:down=0.3",
                             "dynamo-sla:slo=0.5", "dynamo-sla-load:slo=50%", "dynamo-sla-throughput:slo=2"})
    EXPECT_EQ(error_of(policy), "none") << policy;
}
TEST(PolicySettings, AnHpaOfAPolicyHasItsUtilisation) {
  ReplicaCapacity capacity;
  capacity.concurrency = 10.0;
  EXPECT_DOUBLE_EQ(
      hpa_targets("hpa-concurrency:utilisation=0.5", capacity, signals::Role::kAggregated)->at(0).per_replica, 5.0);
  capacity.input_tokens_per_s = 1000.0;
  EXPECT_DOUBLE_EQ(hpa_targets("keda-tokens:utilisation=0.6", capacity, signals::Role::kPrefill)->at(0).per_replica,
                   600.0);
  EXPECT_TRUE(has_hpa_targets("keda-tokens:utilisation=0.6"));
}
TEST(PolicySettings, ErrorsListTheSettingsOfThePolicy) {
  EXPECT_EQ(error_of("hpa-rate:utilization=0.6"),
            "hpa-rate:utilization=0.6: unknown setting 'utilization'; utilisation (from 0.05 to 3): share of the "
            "load-tested capacity that a replica should carry");
  EXPECT_EQ(error_of("hpa-rate:utilisation=9"),
            "hpa-rate:utilisation=9: utilisation must be a number from 0.05 to 3, is '9'; write 0.09 or 9%");
  EXPECT_EQ(
      error_of("hpa-rate:utilisation=nan"),
      "hpa-rate:utilisation=nan: utilisation must be a number from 0.05 to 3, is 'nan'; write a share such as 0.9 or "
      "90%");
  EXPECT_EQ(error_of("llmd-slo:up=0.5:up=0.6"), "llmd-slo:up=0.5:up=0.6: 'up' is given twice");
  EXPECT_EQ(error_of("static:replicas=3"), "static:replicas=3: unknown setting 'replicas'; it has no settings");
  EXPECT_EQ(
      error_of("llmd-token-aware:queue=2"),
      "llmd-token-aware:queue=2: unknown setting 'queue'; backlog (from 0.05 to 600): seconds of prompts in flight of "
      "a replica, 1.5 by default; kv (from 0.05 to 1): share of the KV cache of a replica, 0.8 by default");
  EXPECT_EQ(error_of("penstock:goal=95%"), "none");
  EXPECT_NE(error_of("penstock:goal"), "none");
  EXPECT_FALSE(make_policy("hpa-rate:up=1", {}));
}
TEST(PolicySettings, ErrorsStateHowAValueIsWritten) {
  EXPECT_EQ(error_of("penstock:goal=99"),
            "penstock:goal=99: goal must be a number from 0.5 to 0.9999, is '99'; write 0.99 or 99%");
  EXPECT_EQ(
      error_of("penstock:goal=100%"),
      "penstock:goal=100%: goal must be a number from 0.5 to 0.9999, is '100%'; write a share such as 0.9 or 90%");
  EXPECT_EQ(error_of("token-velocity:hold=5m"),
            "token-velocity:hold=5m: hold must be a number of seconds from 0 to 3600, is '5m'; write seconds without a "
            "unit, such as 300");
  EXPECT_EQ(error_of("token-velocity:hold=300"), "none");
  EXPECT_EQ(error_of("llmd-queue:running=0"),
            "llmd-queue:running=0: running must be a number from 0.1 to 10000, is '0'");
  EXPECT_EQ(error_of("llmd-queue:running=50%"),
            "llmd-queue:running=50%: running must be a number from 0.1 to 10000, is '50%'");
}
TEST(PolicySettings, GivenThresholdsMustNotCross) {
  EXPECT_EQ(error_of("llmd-slo:up=0.3:down=0.5"),
            "llmd-slo:up=0.3:down=0.5: down must be at most up (0.3), is 0.5; lower down or raise up");
  EXPECT_EQ(error_of("hourly-floor:down=0.5:up=30%"),
            "hourly-floor:down=0.5:up=30%: down must be at most up (0.3), is 0.5; lower down or raise up");
  EXPECT_NE(error_of("llmd-saturation-v2:up=0.6:down=0.7"), "none");
  EXPECT_FALSE(make_policy("llmd-slo:up=0.3:down=0.5", {}));
  // One of them alone may cross the default of the other, as when an evaluation sweeps it.
  for (const char* policy : {"llmd-slo:up=0.06", "llmd-slo:up=2", "llmd-slo:down=0.9", "hourly-floor:up=0.05",
                             "hourly-floor:down=0.9", "llmd-saturation-v2:up=0.05", "llmd-slo:up=0.4:down=0.4"})
    EXPECT_EQ(error_of(policy), "none") << policy;
}

}  // namespace
}  // namespace penstock::planner
