#include "capacity/cost_share.h"

#include <gtest/gtest.h>

#include <string>

namespace penstock::capacity {
namespace {

// 10 ms a step, 1 ms a sequence, 0.1 ms a prompt token.
class StepLaw final : public engine::StepTimeModel {
 public:
  [[nodiscard]] core::Duration step(const engine::StepShape& shape) const override {
    return core::from_milliseconds(10.0 + shape.decode_sequences + 0.1 * static_cast<double>(shape.prefill_new_tokens));
  }
  [[nodiscard]] std::string description() const override { return "law"; }
};

double share_of(const TrafficShape& shape) { return input_cost_share(StepLaw{}, shape, EngineLimits{}, 10.0); }

TEST(CostShare, IsTheTimeOfThePromptAgainstThatOfItsAnswer) {
  // 10 + 90 ms for the prompt; 100 steps of 20 ms for ten sequences at once.
  EXPECT_DOUBLE_EQ(share_of({900.0, 101.0, 0.0}), 100.0 / (100.0 + 200.0));
  EXPECT_DOUBLE_EQ(share_of({900.0, 101.0, 0.5}), 55.0 / (55.0 + 200.0)) << "450 of the tokens are cached";
  EXPECT_NEAR(share_of({16384.0, 101.0, 0.0}), 1658.4 / (1658.4 + 200.0), 1e-9) << "two steps of 8,192 tokens";
  EXPECT_DOUBLE_EQ(share_of({900.0, 1.0, 0.0}), 1.0);
}

}  // namespace
}  // namespace penstock::capacity
