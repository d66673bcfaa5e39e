// What capacity says of a replica, beside what the simulation of it does.
#include <gtest/gtest.h>

#include <memory>
#include <string_view>

#include "capacity/step_time_correction.h"
#include "capacity/token_formula.h"
#include "engine/polynomial.h"
#include "engine/step_time_models.h"
#include "simulation/world_testing.h"

namespace penstock::simulation {
namespace {

workload::Workload uniform(std::uint32_t input_tokens, std::uint32_t output_tokens) {
  workload::Workload workload;
  workload::Request request;
  request.input_tokens = input_tokens;
  request.output_tokens = output_tokens;
  workload.requests.push_back(request);
  return workload;
}

// Requests a second by the closed form, over what a load test finds.
double formula_over_load_test(std::string_view model, std::uint32_t input_tokens, std::uint32_t output_tokens) {
  PoolSpec pool;
  pool.step_time = *engine::make_step_time_model(model);
  const RunOptions options = testing::options(pool);
  const auto probed = probe_capacity(uniform(input_tokens, output_tokens), pool, options);
  const auto formula = capacity::token_capacity(
      *pool.step_time, {static_cast<double>(input_tokens), static_cast<double>(output_tokens), 0.0}, {}, {});
  if (!probed || !formula) return 0.0;
  EXPECT_NEAR(formula->tokens.input_tokens_per_s / probed->input_tokens_per_s,
              formula->requests_per_s / probed->requests_per_s, 1e-9);
  return formula->requests_per_s / probed->requests_per_s;
}

TEST(TokenCapacity, IsAtMostThirtyPercentBelowALoadTestAndHardlyAbove) {
  for (const std::string_view model : {"polynomial", "linear:8,0.1,0.05,0.00005", "roofline:llama-3.1-8b,h100"}) {
    SCOPED_TRACE(model);
    for (const auto& [input, output] : {std::pair{500, 200}, {2000, 200}, {8000, 100}, {1000, 1000}, {4000, 30}}) {
      const double ratio =
          formula_over_load_test(model, static_cast<std::uint32_t>(input), static_cast<std::uint32_t>(output));
      EXPECT_GT(ratio, 0.7) << input << "/" << output;
      EXPECT_LT(ratio, 1.03) << input << "/" << output;
    }
  }
}

struct Watched {
  capacity::StepTimeCorrection correction;
  bool ran = false;
};

Watched watch(const Faults& faults, std::shared_ptr<const engine::StepTimeModel> profile) {
  Watched watched{capacity::StepTimeCorrection{std::move(profile)}};
  PoolSpec pool;
  pool.engine.block_tokens = 16;
  pool.engine.kv_blocks = 20'000;
  pool.step_time = std::make_shared<const engine::Polynomial>();
  pool.replicas = 3;
  RunOptions options = testing::options(pool);
  options.faults = faults;
  testing::Scripted onlooker{[&](const signals::Observation& observation, std::size_t index) {
    watched.correction.observe(observation.pools[index], observation.now);
    return observation.pools[index].target_replicas;
  }};
  watched.ran = run(testing::random_workload(6000, 15.0), onlooker, options).has_value();
  return watched;
}

TEST(StepTimeCorrection, LeavesTheProfileOfTheEngineAsItIs) {
  const Watched watched = watch({}, std::make_shared<const engine::Polynomial>());
  ASSERT_TRUE(watched.ran);
  EXPECT_NEAR(watched.correction.factor().value_or(0.0), 1.0, 0.02);
  EXPECT_LT(watched.correction.profile_error().value_or(1.0), 0.03);
  EXPECT_EQ(watched.correction.rejected(), 0U);
  EXPECT_GT(watched.correction.samples(), 100U);
}

TEST(StepTimeCorrection, FindsTheSlowReplicaOfAFleet) {
  Faults faults;
  faults.events = {{FaultKind::kSlow, {}, {}, 1, {}, 1.5}};
  const Watched watched = watch(faults, std::make_shared<const engine::Polynomial>());
  ASSERT_TRUE(watched.ran);
  EXPECT_NEAR(watched.correction.factor_of(1).value_or(0.0), 1.5, 0.04);
  EXPECT_NEAR(watched.correction.factor_of(2).value_or(0.0), 1.0, 0.03);
}

TEST(StepTimeCorrection, CorrectsAProfileOfAnotherEngine) {
  const auto wrong = *engine::make_step_time_model("linear:9,0.02,0.02,0.00002");
  const Watched watched = watch({}, wrong);
  ASSERT_TRUE(watched.ran);
  EXPECT_LT(watched.correction.error().value_or(1.0), 0.5 * watched.correction.profile_error().value_or(0.0));
}

TEST(StepTimeCorrection, ToleratesLateAndLostTelemetry) {
  Faults faults;
  faults.telemetry_delay = std::chrono::seconds{12};
  faults.telemetry_loss = 0.4;
  faults.telemetry_lie = 0.2;
  faults.crashes_per_replica_hour = 20.0;
  const Watched watched = watch(faults, std::make_shared<const engine::Polynomial>());
  ASSERT_TRUE(watched.ran);
  EXPECT_NEAR(watched.correction.factor().value_or(0.0), 1.0, 0.03);
}

TEST(StepTimeCorrection, LearnsALawFromAFleet) {
  const Watched watched = watch({}, nullptr);
  ASSERT_TRUE(watched.ran);
  const auto learned = watched.correction.learned_model();
  ASSERT_NE(learned, nullptr);
  engine::StepShape shape;  // like many of the run
  shape.prefill_requests = 1;
  shape.prefill_new_tokens = 320;
  shape.decode_sequences = 4;
  shape.decode_context_tokens = shape.active_kv_tokens = 4 * 400;
  shape.total_kv_tokens = 320'000;
  const engine::Polynomial truth;
  EXPECT_NEAR(core::to_milliseconds(learned->step(shape)) / core::to_milliseconds(truth.step(shape)), 1.0, 0.25);
}

}  // namespace
}  // namespace penstock::simulation
