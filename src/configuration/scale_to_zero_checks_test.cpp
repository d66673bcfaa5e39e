#include <gtest/gtest.h>

#include "configuration/configuration_testing.h"

namespace penstock::configuration {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;

TEST(ScaleToZeroChecks, RequestsWaitForTheFirstReplicaOfAPoolThatMayHaveNone) {
  const auto waits = [](const std::string& text) {
    return loaded(text).gateway.options.dispatch.interactive.cold_start_queue_time;
  };
  EXPECT_EQ(waits("min_replicas: 0\n"), minutes{10});
  EXPECT_EQ(waits("pools: [{name: a, min_replicas: 0}]\n"), minutes{10});
  EXPECT_EQ(waits("min_replicas: 1\n"), seconds{10}) << "queue_time";
  EXPECT_EQ(waits("min_replicas: 0\nclasses: {interactive: {queue_time: 15m}}\n"), minutes{15});
  EXPECT_EQ(waits("min_replicas: 0\nclasses: {interactive: {queue_time: 0s}}\n"), seconds{0});
  EXPECT_EQ(waits("classes: {interactive: {cold_start_queue_time: 2m}}\n"), minutes{2});
}

TEST(ScaleToZeroChecks, AReplayWaitsAsTheGatewayDoes) {
  EXPECT_EQ(loaded("min_replicas: 0\n").run.dispatch->interactive.cold_start_queue_time, minutes{10});
}

TEST(ScaleToZeroChecks, OneOfSeveralDeploymentsIsEnough) {
  const Configuration made = loaded(
      "deployments:\n  - {name: a, model: m, pools: [{name: p}]}\n"
      "  - {name: b, model: n, pools: [{name: q, min_replicas: 0}]}\n");
  EXPECT_EQ(made.gateway.options.dispatch.interactive.cold_start_queue_time, minutes{10});
}

TEST(ScaleToZeroChecks, AFleetMayBeginWithoutReplicas) {
  const Configuration made = loaded("min_replicas: 0\nreplicas: 0\nplanner: {scale_to_zero_after: 3m}\n");
  EXPECT_EQ(made.run.pools[0].replicas, 0U);
  EXPECT_EQ(made.planner.options.scale_to_zero_after, minutes{3});
  EXPECT_EQ(loaded("min_replicas: 0\n").run.pools[0].replicas, 1U);
}

TEST(ScaleToZeroChecks, WhatIsMissingOrHasNoEffectIsNamed) {
  const std::pair<const char*, const char*> cases[] = {
      {"min_replicas: 0\nclasses: {interactive: {cold_start_queue_time: 5s}}\n",
       "p.yaml:2:48: classes.interactive.cold_start_queue_time: must be at least queue_time (10s), is 5s\n"},
      {"planner: {scale_to_zero_after: 3m}\n",
       "p.yaml:1:32: planner.scale_to_zero_after: has no effect, since no pool has min_replicas: 0\n"},
      {"pools: [{name: a, min_replicas: 0}]\ngateway: {replicas: [{url: 'http://127.0.0.1:9'}]}\n",
       "p.yaml:1:33: pools[0].min_replicas: is 0, and a gateway that starts while there is no replica does not know "
       "the models; name them under models, as models: [{name: MODEL}]\n"},
      {"replicas: 0\n", "p.yaml:1:11: replicas: must be at least min_replicas (1), is 0\n"},
  };
  for (const auto& [text, error] : cases) EXPECT_EQ(problems(text), error) << text;
  EXPECT_EQ(problems("pools: [{name: a, min_replicas: 0}]\nmodels: [{name: m}]\n"
                     "gateway: {replicas: [{url: 'http://127.0.0.1:9'}]}\n"),
            "");
}

}  // namespace
}  // namespace penstock::configuration
