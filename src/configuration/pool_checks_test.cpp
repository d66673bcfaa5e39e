#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "configuration/configuration_testing.h"
#include "core/source_root_testing.h"

namespace penstock::configuration {
namespace {

const std::string kLastServesAll =
    "; let the last pool serve all other requests, without class, tenant, prompt_min and prompt_max\n";

TEST(PoolChecks, SeveralPoolsWithConditionsAreRulesOfTheGatewayAndOfTheReplay) {
  const Configuration made = loaded(
      "pools:\n  - {name: nightly, class: batch, overflow: false}\n  - {name: short, prompt_max: 4000}\n"
      "  - {name: long, price: 3, engine: {kv_blocks: 5000}}\n");
  ASSERT_EQ(made.run.pools.size(), 3U);
  EXPECT_EQ(made.run.pools[2].engine.kv_blocks, 5000U);
  EXPECT_DOUBLE_EQ(made.run.pools[2].price_per_gpu_hour, 3.0);
  const std::vector<dispatch::PoolRule>& rules = made.gateway.options.dispatch.pools;
  ASSERT_EQ(rules.size(), 3U);
  EXPECT_EQ(rules[0].name, "nightly");
  EXPECT_EQ(rules[0].traffic_class, "batch");
  EXPECT_FALSE(rules[0].overflow);
  EXPECT_EQ(rules[1].prompt_max, 4000U);
  EXPECT_TRUE(rules[1].overflow);
  EXPECT_EQ(rules[2].prompt_max, UINT32_MAX);
}

TEST(PoolChecks, OnePoolAndPrefillWithDecodeNeedNoRules) {
  EXPECT_TRUE(loaded("replicas: 3\n").gateway.options.dispatch.pools.empty());
  EXPECT_TRUE(loaded("pools:\n  - {role: prefill}\n  - {role: decode}\n").gateway.options.dispatch.pools.empty());
}

TEST(PoolChecks, EveryRequestHasAPool) {
  EXPECT_EQ(problems("pools:\n  - {name: short, prompt_max: 4000}\n  - {name: long, prompt_min: 5000}\n"),
            "p.yaml:3:5: pools[1]: no pool serves interactive requests of other tenants with a prompt of 4001 tokens" +
                kLastServesAll);
  EXPECT_EQ(problems("pools:\n  - {name: day, class: interactive}\n  - {name: night, class: batch, tenant: acme}\n"),
            "p.yaml:3:5: pools[1]: no pool serves batch requests of other tenants with a prompt of 1 tokens" +
                kLastServesAll);
  EXPECT_EQ(problems("pools:\n  - {name: short, prompt_max: 4000}\n  - {name: long, prompt_min: 4000}\n"), "");
  EXPECT_EQ(problems("pools:\n  - {name: only, class: batch}\n"),
            "p.yaml:2:5: pools[0]: no pool serves interactive requests of other tenants with a prompt of 1 tokens" +
                kLastServesAll);
}

TEST(PoolChecks, APoolThatServesNothingIsReported) {
  const std::string text =
      "the pool 'late' serves no request, since the pools before it match all that it does; the first that matches "
      "serves a request; put the narrower one first\n";
  EXPECT_EQ(problems("pools:\n  - {name: all}\n  - {name: late, class: batch}\n"), "p.yaml:3:5: pools[1]: " + text);
  EXPECT_EQ(problems("pools:\n  - {name: short, prompt_max: 4000}\n  - {name: long, prompt_min: 4001}\n"
                     "  - {name: late}\n"),
            "p.yaml:4:5: pools[2]: " + text)
      << "no single pool before it matches all, but both together do";
}

TEST(PoolChecks, ContradictionsHaveTheirPlace) {
  EXPECT_EQ(problems("pools:\n  - {name: a, prompt_min: 5, prompt_max: 4}\n  - {name: b}\n"),
            "p.yaml:2:42: pools[0].prompt_max: must be at least prompt_min (5), is 4\n");
  EXPECT_EQ(problems("pools:\n  - {name: a, class: batch}\n  - {name: a}\n"),
            "p.yaml:3:12: pools[1].name: two pools are called 'a'; give each pool its own name\n");
  EXPECT_EQ(problems("pools:\n  - {role: prefill, class: batch}\n  - {role: decode}\n"),
            "p.yaml:2:28: pools[0].class: has an effect on aggregated pools only\n");
  EXPECT_EQ(problems("pools:\n  - {name: a, class: slow}\n  - {name: b}\n"),
            "p.yaml:2:22: pools[0].class: must be interactive or batch, is 'slow'\n");
  EXPECT_EQ(problems("frontier: 2..4\npools:\n  - {name: a, prompt_max: 1}\n  - {name: b, prompt_max: 2}\n"
                     "  - {name: c}\n"),
            "p.yaml:1:11: frontier: needs one or two pools, there are 3\n");
}

TEST(PoolChecks, TheExampleOfTheDocumentationIsValid) {
  std::ifstream file{core::testing::source_root() / "docs/examples/pools.yaml"};
  std::stringstream content;
  content << file.rdbuf();
  const Configuration made = loaded(content.str());
  ASSERT_EQ(made.run.pools.size(), 3U);
  EXPECT_EQ(made.gateway.options.dispatch.pools.size(), 3U);
  EXPECT_NE(made.run.pools[1].step_time_model, made.run.pools[2].step_time_model);
}

}  // namespace
}  // namespace penstock::configuration
