#include "planner/penstock/replica_speed.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "capacity/correction_testing.h"
#include "planner/planner_testing.h"

namespace penstock::planner {
namespace {

using capacity::testing::BusyEngine;

class LinearLaw final : public engine::StepTimeModel {
 public:
  [[nodiscard]] core::Duration step(const engine::StepShape& shape) const override {
    return core::from_milliseconds(8.0 + 0.05 * shape.decode_sequences +
                                   0.015 * static_cast<double>(shape.prefill_new_tokens) +
                                   0.00004 * static_cast<double>(shape.decode_context_tokens));
  }
  [[nodiscard]] std::string description() const override { return "linear"; }
};

PoolProfile profile() {
  PoolProfile profile;
  profile.step_time = std::make_shared<const LinearLaw>();
  return profile;
}

// Engines that are so many times slower than the profile.
class Pool {
 public:
  explicit Pool(const std::vector<double>& factors) {
    for (std::size_t i = 0; i < factors.size(); ++i)
      engines_.emplace_back(capacity::testing::times(*profile_, factors[i]), i + 1);
  }
  // How often the factor became another one.
  int go_on(ReplicaSpeed& speed, int intervals) {
    int changes = 0;
    for (int i = 0; i < intervals; ++i) {
      now_ += std::chrono::seconds{5};
      for (BusyEngine& engine : engines_) engine.go_on(5.0);
      changes += speed.observe(seen(), now_) ? 1 : 0;
    }
    return changes;
  }
  [[nodiscard]] signals::PoolObservation seen() const {
    std::vector<const BusyEngine*> shown;
    for (const BusyEngine& engine : engines_) shown.push_back(&engine);
    return capacity::testing::pool_of(shown);
  }

 private:
  std::shared_ptr<const engine::StepTimeModel> profile_ = profile().step_time;
  std::vector<BusyEngine> engines_;
  core::Instant now_;
};

TEST(ReplicaSpeed, IsOneUntilTheFactorIsKnown) {
  Pool pool{{1.4, 1.4}};
  ReplicaSpeed speed{profile()};
  EXPECT_EQ(pool.go_on(speed, 5), 0);
  EXPECT_EQ(speed.factor(), 1.0);
  EXPECT_EQ(pool.go_on(speed, 30), 1);
  EXPECT_NEAR(speed.factor(), 1.4, 0.03);
}

TEST(ReplicaSpeed, ADefaultProfileIsUncalibratedUntilItIsMeasured) {
  Pool pool{{1.4, 1.4}};
  PoolProfile guess = profile();
  ReplicaSpeed known{guess};
  EXPECT_FALSE(known.is_uncalibrated());
  guess.is_default = true;
  ReplicaSpeed speed{guess};
  EXPECT_TRUE(speed.is_uncalibrated());
  (void)pool.go_on(speed, 30);
  EXPECT_FALSE(speed.is_uncalibrated());
}

TEST(ReplicaSpeed, ARoughMeasurementReplacesAGuessOnly) {
  PoolProfile guess = profile();
  guess.is_default = true;
  ReplicaSpeed guessed{guess}, described{profile()};
  // The mean of so different engines is known with an error of 60 %.
  Pool pool{{1.0, 4.0}}, same{{1.0, 4.0}};
  (void)pool.go_on(guessed, 30);
  (void)same.go_on(described, 30);
  EXPECT_GT(*guessed.correction().standard_error(), 0.05 * *guessed.correction().factor());
  EXPECT_NEAR(guessed.factor(), 2.5, 0.3);
  EXPECT_EQ(described.factor(), 1.0);
}

TEST(ReplicaSpeed, EstimatesTheGapBetweenTokens) {
  Pool pool{{1.4, 1.4}};
  ReplicaSpeed speed{profile()};
  (void)pool.go_on(speed, 30);
  signals::PoolObservation seen = pool.seen();
  EXPECT_FALSE(speed.latency(seen).itl_ms || speed.latency(seen).ttft_ms);  // No traffic.
  seen.last_minute.arrivals = seen.last_minute.completed = 10;
  seen.last_minute.input_tokens = 1000;
  seen.last_minute.completed_output_tokens = 2000;
  seen.replicas[0].sample->running_requests = 4;
  seen.replicas[1].sample->running_requests = 2;  // The slower engine counts.
  // One of 50 steps computes a prompt of 100 tokens, too.
  EXPECT_NEAR(*speed.latency(seen).itl_ms, 1.4 * (8.0 + 0.05 * 4 + 0.00004 * 4 * 200 + 0.015 * 100 / 50), 0.3);
}

// The pool of the tests with prompts of 100 tokens and answers of 200.
signals::PoolObservation with_traffic(const Pool& pool) {
  signals::PoolObservation seen = pool.seen();
  seen.last_minute.length = std::chrono::minutes{1};
  seen.last_minute.arrivals = seen.last_minute.completed = 10;
  seen.last_minute.input_tokens = 1000;
  seen.last_minute.completed_output_tokens = 2000;
  for (signals::ReplicaObservation& replica : seen.replicas) {
    replica.sample->running_requests = replica.sample->queued_requests = 0;
    replica.sample->queued_prefill_tokens = 0;
    replica.sample->prompt_tokens_total.reset();
  }
  return seen;
}

TEST(ReplicaSpeed, EstimatesTheTimeToFirstTokenOfTheEngineWithTheLongestQueue) {
  Pool pool{{1.4, 1.4}};
  ReplicaSpeed speed{profile()};
  (void)pool.go_on(speed, 30);
  signals::PoolObservation seen = with_traffic(pool);
  EXPECT_NEAR(*speed.latency(seen).ttft_ms, 1.4 * (8.0 + 0.015 * 100), 0.3);  // One prompt alone.
  // 20,100 tokens take two steps of 8,192 and one with the rest, each beside four sequences that decode.
  seen.replicas[1].sample->queued_prefill_tokens = 20'000;
  seen.replicas[1].sample->running_requests = 4;
  EXPECT_NEAR(*speed.latency(seen).ttft_ms, 1.4 * (3 * (8.0 + 0.05 * 4 + 0.00004 * 4 * 200) + 0.015 * 20'100), 8.0);
  // An engine that reports requests only: each has a prompt of mean length.
  seen.replicas[1].sample->queued_prefill_tokens.reset();
  seen.replicas[1].sample->queued_requests = 200;
  EXPECT_NEAR(*speed.latency(seen).ttft_ms, 1.4 * (3 * (8.0 + 0.05 * 4 + 0.00004 * 4 * 200) + 0.015 * 20'100), 8.0);
  seen.role = signals::Role::kDecode;
  EXPECT_FALSE(speed.latency(seen).ttft_ms);
}

TEST(ReplicaSpeed, TheCapacityIsWhatTheSloAllowsNotWhatArrives) {
  Pool pool{{1.4, 1.4}};
  ReplicaSpeed speed{profile()};
  (void)pool.go_on(speed, 30);
  signals::PoolObservation seen = with_traffic(pool);
  const signals::SloTarget slo{std::chrono::seconds{2}, std::chrono::milliseconds{50}};
  const double capacity = speed.estimate(seen, slo)->requests_per_s;
  EXPECT_GT(capacity, 1.0);  // 10 requests arrived in a minute.
  seen.last_minute.arrivals = seen.last_minute.completed = 1000;
  seen.last_minute.input_tokens = 100'000;
  seen.last_minute.completed_output_tokens = 200'000;
  EXPECT_DOUBLE_EQ(speed.estimate(seen, slo)->requests_per_s, capacity);
  EXPECT_LT(speed.estimate(seen, {slo.ttft, std::chrono::milliseconds{25}})->requests_per_s, 0.7 * capacity);
  EXPECT_FALSE(speed.estimate(seen, {slo.ttft, std::chrono::milliseconds{5}}));  // Not even one sequence.
}

TEST(ReplicaSpeed, LearnsLimitsThatDifferFromTheProfile) {
  ReplicaSpeed speed{profile()};
  signals::EngineSample vllm;
  vllm.queued_requests = 40;
  vllm.running_requests = 2;
  vllm.kv_share = 0.1;
  vllm.kv_capacity_tokens = 100'000;
  bool changed = false;
  for (int tick = 1; tick <= 4; ++tick) {
    vllm.sampled_at = testing::at_s(5.0 * tick);
    changed = speed.observe(testing::pool_of(2, vllm), vllm.sampled_at) || changed;
  }
  EXPECT_TRUE(changed);
  EXPECT_EQ(speed.engine().max_sequences, 2U);
  EXPECT_EQ(speed.engine().kv_tokens, 100'000U);
  vllm.kv_capacity_tokens = 99'000;  // A replica with a little less.
  EXPECT_FALSE(speed.observe(testing::pool_of(2, vllm), testing::at_s(25)));
  vllm.kv_capacity_tokens = 80'000;
  EXPECT_TRUE(speed.observe(testing::pool_of(2, vllm), testing::at_s(30)));
  EXPECT_EQ(speed.engine().kv_tokens, 80'000U);
}

// A limit that a guess has, too, is known only once it was seen.
TEST(ReplicaSpeed, NamesTheSequencesThatWereSeenToRunAtOnce) {
  PoolProfile guess = profile();
  guess.is_default = true;
  ReplicaSpeed guessed{guess}, described{profile()};
  signals::EngineSample vllm;
  vllm.queued_requests = 40;
  vllm.running_requests = static_cast<std::uint32_t>(guess.limits.max_sequences);
  vllm.kv_share = 0.1;
  EXPECT_FALSE(guessed.learned_sequences());
  for (int tick = 1; tick <= 4; ++tick) {
    vllm.sampled_at = testing::at_s(5.0 * tick);
    for (ReplicaSpeed* speed : {&guessed, &described})
      static_cast<void>(speed->observe(testing::pool_of(2, vllm), vllm.sampled_at));
  }
  EXPECT_EQ(guessed.learned_sequences(), vllm.running_requests);
  EXPECT_FALSE(described.learned_sequences());
}

TEST(ReplicaSpeed, AFactorOnceAppliedStaysUntilItIsClearlyWrong) {
  Pool near{{1.03, 1.03}};
  ReplicaSpeed speed{profile()};
  EXPECT_EQ(near.go_on(speed, 60), 0);
  EXPECT_EQ(speed.factor(), 1.0);  // 3 % are not worth trying every fleet again
  ASSERT_TRUE(speed.correction().factor().has_value());
  EXPECT_NEAR(*speed.correction().factor(), 1.03, 0.01);
}

TEST(ReplicaSpeed, AFactorThatIsNotKnownWellIsNotApplied) {
  Pool pool{{1.0, 1.5, 2.5}};  // who knows what the next is like
  ReplicaSpeed speed{profile()};
  EXPECT_EQ(pool.go_on(speed, 60), 0);
  EXPECT_EQ(speed.factor(), 1.0);
  EXPECT_GT(*speed.correction().standard_error(), 0.05 * *speed.correction().factor());
}

TEST(ReplicaSpeed, AnExtremeFactorIsLimited) {
  Pool slow{{20.0, 20.0}}, fast{{0.05, 0.05}};
  ReplicaSpeed slower{profile()}, faster{profile()};
  slow.go_on(slower, 100);
  fast.go_on(faster, 60);
  EXPECT_EQ(slower.factor(), 10.0);
  EXPECT_EQ(faster.factor(), 0.2);
}

TEST(ReplicaSpeed, CountsTheCapacityThatSlowReplicasLack) {
  Pool pool{{1.0, 1.0, 2.0, 1.0, 4.0}};
  ReplicaSpeed speed{profile()};
  EXPECT_EQ(speed.replicas_lacking(pool.seen()), 0.0);  // nothing is known yet
  pool.go_on(speed, 60);
  // A half less 5 % that do not count, and three quarters less as much.
  EXPECT_NEAR(speed.replicas_lacking(pool.seen()), 0.45 + 0.70, 0.03);
  signals::PoolObservation drains = pool.seen();
  drains.replicas[2].state = signals::ReplicaState::kDraining;
  EXPECT_NEAR(speed.replicas_lacking(drains), 0.70, 0.02);
}

TEST(ReplicaSpeed, EqualReplicasLackNothing) {
  Pool pool{{1.5, 1.5, 1.5}};
  ReplicaSpeed speed{profile()};
  pool.go_on(speed, 60);
  EXPECT_EQ(speed.replicas_lacking(pool.seen()), 0.0);
}

TEST(ReplicaSpeed, WithoutAProfileNothingIsCorrected) {
  Pool pool{{1.4, 1.4}};
  ReplicaSpeed speed{PoolProfile{}};
  EXPECT_EQ(pool.go_on(speed, 60), 0);
  EXPECT_EQ(speed.factor(), 1.0);
  EXPECT_EQ(speed.replicas_lacking(pool.seen()), 0.0);
}

// ---- the token formula ----------------------------------------------------------------------------------------------

// Ten requests a second of 1000 prompt tokens, with answers of 200.
signals::PoolObservation busy_pool() {
  signals::PoolObservation pool = testing::pool_of(4, testing::engine(0));
  pool.last_minute.length = std::chrono::minutes{1};
  pool.last_minute.arrivals = 600;
  pool.last_minute.input_tokens = 600'000;
  pool.last_minute.completed = 500;
  pool.last_minute.completed_output_tokens = 100'000;
  return pool;
}
// Of one replica.
capacity::ReplicaEstimate carried(double cached_share, double factor, signals::Role role = signals::Role::kAggregated) {
  capacity::CapacityOptions options;
  options.factor = factor;
  options.role = role;
  return capacity::token_capacity(*profile().step_time, {1000.0, 200.0, cached_share}, {}, {}, options).value();
}
std::uint32_t replicas_for(double requests_per_s, const capacity::ReplicaEstimate& each, double utilisation) {
  return static_cast<std::uint32_t>(std::ceil(requests_per_s / (each.requests_per_s * utilisation)));
}

TEST(ReplicaSpeed, TheFormulaDividesTheTrafficByWhatAReplicaCarries) {
  const ReplicaSpeed speed{profile()};
  const auto result = speed.by_formula(busy_pool(), {}, 1.0, 0.8);
  ASSERT_TRUE(result.has_value());
  EXPECT_EQ(result->replicas, replicas_for(10.0, carried(0.0, 1.0), 0.8));
  const auto more = speed.by_formula(busy_pool(), {}, 7.0, 0.8);
  EXPECT_EQ(more->replicas, replicas_for(70.0, carried(0.0, 1.0), 0.8));
  EXPECT_GT(more->replicas, result->replicas);
}

TEST(ReplicaSpeed, TheFormulaLeavesOutPromptTokensThatTheCacheHas) {
  signals::PoolObservation pool = busy_pool();
  for (std::size_t i = 0; i < 2; ++i) {
    pool.replicas[i].sample->prompt_tokens_total = 100'000 * (i + 1);
    pool.replicas[i].sample->prefix_hit_tokens_total = 120'000 * i;  // 120000 of 300000 in all
  }
  const auto result = ReplicaSpeed{profile()}.by_formula(pool, {}, 20.0, 0.8);
  EXPECT_EQ(result->replicas, replicas_for(200.0, carried(0.4, 1.0), 0.8));
  EXPECT_LT(result->replicas, replicas_for(200.0, carried(0.0, 1.0), 0.8));
}

// Three of ten requests that have ended are longer than what was measured.
TEST(ReplicaSpeed, TrafficOutsideTheProfileIsUncertain) {
  PoolProfile measured = profile();
  measured.ranges = capacity::ProfileRanges{{100, 1000}, {100, 2000}, 500'000};
  std::vector<signals::RecentRequest> recent(20);
  for (std::size_t i = 0; i < recent.size(); ++i) {
    recent[i].input_tokens = i % 10 < 3 ? 4000 : 500;
    recent[i].output_tokens = i < 10 ? 100 : 0;
  }
  ReplicaSpeed speed{measured}, formula{profile()};
  for (ReplicaSpeed* each : {&speed, &formula}) each->observe_lengths(recent, core::kStart + core::kMinute);
  EXPECT_DOUBLE_EQ(speed.outside_profile(), 0.3);
  EXPECT_EQ(formula.outside_profile(), 0.0);
  const auto result = speed.by_formula(busy_pool(), {}, 20.0, 0.8);
  EXPECT_EQ(result->replicas, replicas_for(200.0, carried(0.0, 1.3), 0.8));
  EXPECT_GT(result->replicas, replicas_for(200.0, carried(0.0, 1.0), 0.8));

  speed.observe_lengths({}, core::kStart + core::kMinute + std::chrono::seconds{55});
  EXPECT_DOUBLE_EQ(speed.outside_profile(), 0.3) << "once a minute";
  speed.observe_lengths({}, core::kStart + 2 * core::kMinute);
  EXPECT_EQ(speed.outside_profile(), 0.0) << "traffic that is forgotten";
  speed.observe_lengths(recent, core::kStart);
  EXPECT_DOUBLE_EQ(speed.outside_profile(), 0.3) << "the clock went back";
}

TEST(ReplicaSpeed, TheFormulaDependsOnThePoolsRole) {
  signals::PoolObservation pool = busy_pool();
  pool.role = signals::Role::kDecode;
  const auto result = ReplicaSpeed{profile()}.by_formula(pool, {}, 20.0, 0.8);
  EXPECT_EQ(result->replicas, replicas_for(200.0, carried(0.0, 1.0, signals::Role::kDecode), 0.8));
}

TEST(ReplicaSpeed, TheFormulaUsesTheFactorThatIsApplied) {
  Pool engines{{1.5, 1.5}};
  ReplicaSpeed speed{profile()}, never_observed{profile()};
  engines.go_on(speed, 60);
  EXPECT_GT(speed.by_formula(busy_pool(), {}, 20.0, 0.8)->replicas,
            never_observed.by_formula(busy_pool(), {}, 20.0, 0.8)->replicas);
}

TEST(ReplicaSpeed, ThereIsNoFormulaWithoutTrafficOrProfile) {
  const ReplicaSpeed speed{profile()};
  EXPECT_FALSE(ReplicaSpeed{PoolProfile{}}.by_formula(busy_pool(), {}, 1.0, 0.8).has_value());
  signals::PoolObservation pool = busy_pool();
  pool.last_minute.arrivals = 0;
  EXPECT_FALSE(speed.by_formula(pool, {}, 1.0, 0.8).has_value());
  pool = busy_pool();
  pool.last_minute.completed = 0;
  EXPECT_FALSE(speed.by_formula(pool, {}, 1.0, 0.8).has_value());
  pool = busy_pool();
  pool.last_minute.length = {};
  EXPECT_FALSE(speed.by_formula(pool, {}, 1.0, 0.8).has_value());
  signals::SloTarget impossible;
  impossible.itl = std::chrono::microseconds{1};
  EXPECT_FALSE(speed.by_formula(busy_pool(), impossible, 1.0, 0.8).has_value());
}

}  // namespace
}  // namespace penstock::planner
