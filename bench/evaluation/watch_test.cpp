#include "evaluation/watch.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>

namespace penstock::evaluation {
namespace {

// Says what it is told to.
class Told final : public decision::Policy {
 public:
  [[nodiscard]] std::string_view name() const override { return "told"; }
  [[nodiscard]] core::Duration interval() const override { return std::chrono::seconds{5}; }
  [[nodiscard]] decision::Decision decide(const signals::Observation&) override {
    decision::Decision decision;
    decision::PoolDecision pool;
    pool.target = target;
    pool.evidence = {{"request_rate", evidence, "1/s"}};
    decision.pools.push_back(pool);
    return decision;
  }
  std::uint32_t target = 4;
  double evidence = 1.0;
};

signals::Observation calm(double at_s, std::uint32_t replicas) {
  signals::Observation observation;
  observation.now = core::kStart + core::from_seconds(at_s);
  signals::PoolObservation pool;
  pool.max_replicas = 20;
  pool.target_replicas = pool.ready = replicas;
  for (std::uint32_t i = 0; i < replicas; ++i) {
    signals::EngineSample sample;
    sample.sampled_at = observation.now;
    sample.kv_capacity_tokens = 1000;
    signals::ReplicaObservation replica;
    replica.replica = i;
    replica.state = signals::ReplicaState::kReady;
    replica.sample = sample;
    pool.replicas.push_back(replica);
  }
  observation.pools.push_back(pool);
  return observation;
}

// What one decision breaks, seen from a calm fleet of four that something was done to.
std::string broken_by(std::uint32_t target, const std::function<void(signals::PoolObservation&)>& trouble = {}) {
  Told told;
  told.target = target;
  WatchedPolicy watched{told};
  signals::Observation observation = calm(1000.0, 4);
  if (trouble) trouble(observation.pools.front());
  static_cast<void>(watched.decide(observation));
  EXPECT_EQ(watched.broken(), watched.first_broken().empty() ? 0U : 1U);
  return watched.first_broken();
}

TEST(WatchedPolicy, FindsNothingWrongWithACalmFleetThatShrinksOrGrows) {
  for (const std::uint32_t target : {3U, 4U, 8U}) EXPECT_EQ(broken_by(target), "");
}

TEST(WatchedPolicy, ReturnsThePolicysDecision) {
  Told told;
  WatchedPolicy watched{told};
  EXPECT_EQ(watched.decide(calm(0.0, 4)).pools.front().target, 4U);
  EXPECT_EQ(watched.name(), "told");
}

TEST(WatchedPolicy, NamesTheViolationAndItsTime) { EXPECT_EQ(broken_by(0), "leaves its bounds at 16 min 40 s"); }

TEST(WatchedPolicy, ReportsGrowthAboveTheFactorPerMinute) {
  EXPECT_EQ(broken_by(12), "");
  EXPECT_TRUE(broken_by(13).starts_with("grows faster than allowed"));
}

TEST(WatchedPolicy, CountsGrowthFromTheSmallestTargetOfTheLastMinute) {
  Told told;
  WatchedPolicy watched{told};
  told.target = 12;
  static_cast<void>(watched.decide(calm(0.0, 4)));
  told.target = 13;
  static_cast<void>(watched.decide(calm(30.0, 12)));
  EXPECT_EQ(watched.broken(), 1U);
  static_cast<void>(watched.decide(calm(65.0, 12)));
  EXPECT_EQ(watched.broken(), 1U);
}

TEST(WatchedPolicy, ReportsScaleDownWithoutHealthyTelemetry) {
  const auto says = [](const char* text, const std::function<void(signals::PoolObservation&)>& trouble) {
    EXPECT_TRUE(broken_by(3, trouble).starts_with(text)) << text;
    EXPECT_EQ(broken_by(4, trouble), "") << text;
  };
  says("shrinks while telemetry", [](auto& pool) { pool.replicas[1].sample.reset(); });
  says("shrinks while telemetry", [](auto& pool) { pool.replicas[1].sample->sampled_at -= std::chrono::seconds{31}; });
  says("shrinks while a queue",
       [](auto& pool) { pool.replicas[3].sample->oldest_queued_age = std::chrono::seconds{1}; });
  says("shrinks while a queue", [](auto& pool) { pool.unrouted_requests = 1; });
  says("shrinks while the KV cache", [](auto& pool) {
    for (auto& replica : pool.replicas) replica.sample->kv_used_tokens = 800;
  });
  says("shrinks while replicas", [](auto& pool) { pool.draining = 1; });
  says("shrinks while requests fail", [](auto& pool) { pool.last_minute.failed = 1; });
}

// Makes two decisions, 5 s apart by default, with an event in between, and returns what the second one breaks.
std::string broken_next(std::uint32_t first, std::uint32_t then, std::uint32_t second,
                        const std::function<void(signals::Observation&)>& event = {}) {
  Told told;
  WatchedPolicy watched{told};
  told.target = first;
  static_cast<void>(watched.decide(calm(1000.0, 4)));
  EXPECT_EQ(watched.broken(), 0U);
  told.target = second;
  signals::Observation next = calm(1005.0, then);
  if (event) event(next);
  static_cast<void>(watched.decide(next));
  return watched.first_broken();
}

TEST(WatchedPolicy, KeepsEnoughReadyReplicasForTheLoad) {
  EXPECT_EQ(broken_by(3, [](auto& pool) { pool.replicas[0].sample->kv_used_tokens = 600; }), "");
  EXPECT_TRUE(broken_by(3, [](auto& pool) {
                pool.replicas[0].sample->kv_used_tokens = 500;
                pool.replicas[0].sample->queued_prefill_tokens = 150;
              }).starts_with("leaves too few replicas for the load"));
  EXPECT_TRUE(broken_by(3, [](auto& pool) {
                pool.target_replicas = 5;
                pool.min_replicas = 3;
                pool.ready = 2;
              }).starts_with("leaves too few ready replicas"));
}

TEST(WatchedPolicy, ReportsAChangeSoonAfterAFailedAction) {
  const auto fails = [](signals::Observation& next) { next.pools[0].actions_failed_total = 1; };
  EXPECT_EQ(broken_next(6, 4, 4, fails), "");
  EXPECT_TRUE(broken_next(6, 4, 6, fails).starts_with("changes its target soon after"));
  EXPECT_TRUE(broken_next(4, 4, 3, fails).starts_with("changes its target soon after"));
  EXPECT_EQ(broken_next(6, 4, 6), "");
}

TEST(WatchedPolicy, ReportsAChangeOfAManuallySetTarget) {
  EXPECT_EQ(broken_next(6, 5, 5), "");
  EXPECT_TRUE(broken_next(6, 5, 6).starts_with("changes a target that another actor set"));
  EXPECT_TRUE(broken_next(6, 5, 4).starts_with("changes a target that another actor set"));
  EXPECT_EQ(broken_next(6, 5, 6, [](auto& next) { next.pools[0].min_replicas = 6; }), "");
}

TEST(WatchedPolicy, ReportsAChangeWhileTheClockGoesBack) {
  const auto back = [](signals::Observation& next) { next = calm(900.0, 4); };
  EXPECT_EQ(broken_next(4, 4, 4, back), "");
  EXPECT_TRUE(broken_next(4, 4, 6, back).starts_with("changes its target when the clock goes back"));
}

TEST(WatchedPolicy, ReportsGrowthAboveTheGpuBudget) {
  const auto says = [](std::uint32_t target, std::uint32_t draining) {
    planner::GuardrailOptions limits;
    limits.gpu_budget = 12;
    Told told;
    told.target = target;
    WatchedPolicy watched{told, limits};
    signals::Observation observation = calm(0.0, 4);
    observation.pools[0].gpus_per_replica = 2;
    observation.pools[0].draining = draining;
    static_cast<void>(watched.decide(observation));
    return watched.first_broken();
  };
  EXPECT_EQ(says(6, 0), "");
  EXPECT_TRUE(says(7, 0).starts_with("grows beyond the GPU budget"));
  EXPECT_TRUE(says(6, 1).starts_with("grows beyond the GPU budget"));
  EXPECT_EQ(says(4, 9), "");
}

TEST(WatchedPolicy, ReportsEvidenceThatIsNotFinite) {
  Told told;
  told.evidence = std::numeric_limits<double>::quiet_NaN();
  WatchedPolicy watched{told};
  static_cast<void>(watched.decide(calm(0.0, 4)));
  EXPECT_TRUE(watched.first_broken().starts_with("has evidence"));
}

}  // namespace
}  // namespace penstock::evaluation
