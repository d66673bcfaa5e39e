#include "replay/capacities.h"

#include <gtest/gtest.h>

#include "engine/step_time_models.h"

namespace penstock::replay {
namespace {

simulation::PoolSpec pool_with(const char* model, std::uint32_t max_batched_tokens) {
  simulation::PoolSpec pool;
  pool.step_time = engine::make_step_time_model(model).value();
  pool.engine.max_batched_tokens = max_batched_tokens;
  return pool;
}

TEST(Capacities, TheSpeedOfAnIdleEngineIsThatOfAPromptOf8192Tokens) {
  // Dynamo's replay needs 169.14 ms for this prompt with the same step times.
  EXPECT_NEAR(8192.0 / idle_prompt_tokens_per_s(pool_with("polynomial", 8192)), 0.16914, 1e-5);
}
TEST(Capacities, APromptBeyondTheBatchIsComputedInChunks) {
  // Four steps of 10 ms, each with 2,048 prompt tokens of 0.01 ms.
  EXPECT_NEAR(8192.0 / idle_prompt_tokens_per_s(pool_with("linear:10,0,0.01,0", 2048)), 0.04 + 0.08192, 1e-9);
}

TEST(Capacities, APolicyRequiresTheFiguresThatItNeeds) {
  configuration::KnownCapacity known;
  const auto missing = [&](const char* policy) {
    const auto found = known_capacity(known, policy);
    if (found) return std::string{};
    return found.error().what.substr(found.error().what.find("lacks ") + 6);
  };
  EXPECT_EQ(missing("hpa-rate"), "requests_per_s");
  EXPECT_EQ(missing("kpa:utilisation=0.5"), "concurrency");
  EXPECT_EQ(missing("keda-tokens"), "input_tokens_per_s, output_tokens_per_s");
  EXPECT_EQ(missing("llmd-slo"), "");
  known.requests_per_s = 2.0;
  EXPECT_EQ(missing("hpa-rate"), "");
  EXPECT_EQ(missing("hpa-concurrency"), "concurrency");
  EXPECT_DOUBLE_EQ(known_capacity(known, "hpa-rate")->capacity.requests_per_s, 2.0);
}

}  // namespace
}  // namespace penstock::replay
