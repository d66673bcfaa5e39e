#include "report/token_cost.h"

#include <gtest/gtest.h>

namespace penstock::report {
namespace {

decision::RunResult result_of(double cost) {
  decision::RunResult result;
  result.cost = cost;
  result.input_cost_share = 0.25;
  result.completed_tokens = {4'000'000, 500'000};
  result.goodput_tokens = {2'000'000, 250'000};
  return result;
}

TEST(TokenCost, InputAndOutputTogetherBearTheWholeCost) {
  const TokenCosts costs = token_costs(result_of(8.0));
  EXPECT_DOUBLE_EQ(*costs.input, 0.5);
  EXPECT_DOUBLE_EQ(*costs.output, 12.0);
  EXPECT_DOUBLE_EQ(*costs.input * 4.0 + *costs.output * 0.5, 8.0);
}

TEST(TokenCost, AtTheSloTheTokensWithinItBearTheWholeCost) {
  const TokenCosts costs = token_costs(result_of(8.0));
  EXPECT_DOUBLE_EQ(*costs.input_at_slo, 1.0);
  EXPECT_DOUBLE_EQ(*costs.output_at_slo, 24.0);
  decision::RunResult none = result_of(8.0);
  none.goodput_tokens = {};
  EXPECT_FALSE(token_costs(none).input_at_slo);
}

TEST(TokenCost, APartOfTheTokensBearsItsPartOfTheCost) {
  const decision::TokenCost part = part_of({2.0, 6.0}, {1'000'000, 0}, {4'000'000, 500'000});
  EXPECT_DOUBLE_EQ(part.input, 0.5);
  EXPECT_DOUBLE_EQ(part.output, 0.0);
  EXPECT_DOUBLE_EQ(part_of({2.0, 6.0}, {}, {}).input, 0.0);
}

TEST(TokenCost, TenantsShareTheWholeCost) {
  decision::RunResult result = result_of(8.0);
  result.tenants.resize(2);
  result.tenants[0].prompt_tokens = 3'000'000;
  result.tenants[1].prompt_tokens = 1'000'000;
  result.tenants[1].output_tokens = 500'000;
  EXPECT_DOUBLE_EQ(*gpu_cost_of(result.tenants[0], result), 1.5);
  EXPECT_DOUBLE_EQ(*gpu_cost_of(result.tenants[1], result), 6.5);
  result.tenants[0].prompt_tokens = result.tenants[1].prompt_tokens = result.tenants[1].output_tokens = 0;
  EXPECT_FALSE(gpu_cost_of(result.tenants[0], result));
}

}  // namespace
}  // namespace penstock::report
