// Overload policies in the configuration.
#include <gtest/gtest.h>

#include "configuration/configuration_testing.h"

namespace penstock::configuration {
namespace {

using admission::OverloadAction;

TEST(OverloadChecks, PoliciesOfClassesAndTenantsAreRead) {
  const GatewaySetup settings = loaded(
                                    "classes: {interactive: {overload: queue}, batch: {overload: degrade, "
                                    "degrade_above: 9000, degrade_to: 64}}\n"
                                    "tenants: [{name: a, keys: [k], class: batch, overload: drop}, {name: b, keys: "
                                    "[l]}]\n")
                                    .gateway;
  const dispatch::DispatchOptions& options = settings.options.dispatch;
  EXPECT_EQ(options.interactive.overload, OverloadAction::kQueue);
  EXPECT_EQ(options.batch.overload, OverloadAction::kDegrade);
  EXPECT_EQ(options.batch.degrade.above_waiting_tokens, 9000U);
  EXPECT_EQ(options.batch.degrade.max_tokens, 64U);
  EXPECT_EQ(options.tenants[0].overload, OverloadAction::kDrop);
  EXPECT_EQ(options.tenants[1].overload, std::nullopt);
}

TEST(OverloadChecks, ContradictionsNameTheirPlace) {
  const std::pair<const char*, const char*> cases[] = {
      {"classes: {batch: {queue_time: 0s, overload: drop}}\n",
       "p.yaml:1:45: classes.batch.overload: drop needs a queue_time above 0s; write overload: shed to refuse requests "
       "at once\n"},
      {"classes: {batch: {queue_time: 9s, overload: shed}}\n",
       "p.yaml:1:31: classes.batch.queue_time: has no effect, since overload: shed lets no request wait\n"},
      {"classes: {batch: {overload: queue, degrade_to: 9}}\n",
       "p.yaml:1:48: classes.batch.degrade_to: has no effect, since no request of the class has overload: degrade\n"},
      {"classes: {interactive: {overload: drop}}\n",
       "p.yaml:1:35: classes.interactive.overload: drop has no effect, since no request has precedence over the class "
       "interactive; write queue, degrade or shed, or give tenants a higher tier\n"},
      {"classes: {batch: {queue_time: 0s}}\ntenants: [{name: a, keys: [k], class: batch, overload: queue}]\n",
       "p.yaml:2:56: tenants[0].overload: queue needs a classes.batch.queue_time above 0s; write shed, or omit it\n"},
      {"tenants: [{name: a, keys: [k], overload: shed, over_budget: queue}]\n",
       "p.yaml:1:42: tenants[0].overload: shed contradicts over_budget: queue, since no request of the tenant waits\n"},
      {"tenants: [{name: a, keys: [k], overload: shed, over_budget: batch}]\n",
       "p.yaml:1:42: tenants[0].overload: shed contradicts over_budget: batch, since no request of the tenant waits\n"},
      {"tenants: [{name: a, keys: [k], over_budget: batch}]\nclasses: {batch: {queue_time: 0s}}\n",
       "p.yaml:1:45: tenants[0].over_budget: batch needs batch requests that wait, and those of the tenant do not; "
       "raise "
       "classes.batch.queue_time, and write no classes.batch.overload: shed\n"},
      {"tenants: [{name: a, keys: [k], overload: drop}, {name: b, keys: [l]}]\n",
       "p.yaml:1:42: tenants[0].overload: drop has no effect, since no tenant has precedence over the tenant; write "
       "class: batch, or give other tenants a higher tier\n"},
      {"classes: {batch: {degrade_above: 200000}}\n",
       "p.yaml:1:34: classes.batch.degrade_above: classes.interactive.degrade_above (131072) must be at least "
       "classes.batch.degrade_above (200000), or interactive answers are shortened first\n"},
      {"classes: {batch: {overload: maybe}}\n",
       "p.yaml:1:29: classes.batch.overload: must be queue, degrade, drop or shed, is 'maybe'\n"},
      {"gateway: {admission: {clamp_above: 5}}\n",
       "p.yaml:1:23: gateway.admission.clamp_above: unknown key; write classes.interactive.degrade_above and "
       "classes.batch.degrade_above\n"},
  };
  for (const auto& [yaml, message] : cases) EXPECT_EQ(problems(yaml), message);
}

TEST(DeferralChecks, ContradictionsNameTheirPlace) {
  const std::pair<const char*, const char*> cases[] = {
      {"classes: {batch: {completion_window: 10m, overload: shed}}\n",
       "p.yaml:1:38: classes.batch.completion_window: contradicts overload: shed, since such requests do not wait for "
       "spare capacity; write classes.batch.overload: queue or degrade, and a queue_time above 0s\n"},
      {"classes: {batch: {completion_window: 10m, queue_time: 0s}}\n",
       "p.yaml:1:38: classes.batch.completion_window: contradicts overload: shed, since such requests do not wait for "
       "spare capacity; write classes.batch.overload: queue or degrade, and a queue_time above 0s\n"},
      {"classes: {batch: {completion_window: 10m, time_budget: 5m}}\n",
       "p.yaml:1:38: classes.batch.completion_window: must be at most classes.batch.time_budget (300s), which ends "
       "deferred requests, too\n"},
      {"classes: {batch: {completion_window: 9s}}\n",
       "p.yaml:1:38: classes.batch.completion_window: must be 0s or at least 10s, is 9s\n"},
      {"classes: {batch: {near_deadline: refuse}}\n",
       "p.yaml:1:34: classes.batch.near_deadline: has no effect without classes.batch.completion_window\n"},
      {"router: kv\nclasses: {batch: {completion_window: 10m}}\n",
       "p.yaml:2:38: classes.batch.completion_window: has no effect on the router kv, which has no admission\n"},
  };
  for (const auto& [yaml, message] : cases) EXPECT_EQ(problems(yaml), message);
}

TEST(DeferralChecks, BatchGetsASegmentOfItsOwn) {
  const Configuration made = loaded("slo: {goal: 98%}\nclasses: {batch: {completion_window: 10m, time_budget: 10m}}\n");
  ASSERT_EQ(made.run.slo_segments.size(), 1U);
  EXPECT_EQ(made.run.slo_segments[0].traffic_class, "batch");
  EXPECT_EQ(made.run.slo_segments[0].target.ttft, std::chrono::minutes{10});
  EXPECT_EQ(made.run.slo_segments[0].goal, 0.98);
  EXPECT_EQ(made.gateway.options.dispatch.slo.segments.size(), 1U);
  EXPECT_EQ(made.run.dispatch->batch.completion_window, std::chrono::minutes{10});
  EXPECT_TRUE(loaded("slo: {goal: 98%}\n").run.slo_segments.empty());
}

TEST(OverloadChecks, WhatHasAnEffectOnSomeTenantIsNoContradiction) {
  const char* cases[] = {
      "classes: {batch: {queue_time: 9s, overload: shed}}\ntenants: [{name: a, keys: [k], overload: queue}]\n",
      "classes: {batch: {overload: shed, degrade_to: 9}}\n"
      "tenants: [{name: a, keys: [k], class: batch, overload: degrade}]\n",
      "classes: {interactive: {overload: drop}}\ntenants: [{name: a, keys: [k], tier: 1}]\n",
      "tenants: [{name: a, keys: [k], overload: drop}, {name: b, keys: [l], tier: 1}]\n",
      "classes: {batch: {queue_time: 0s}}\n",
      "classes: {batch: {queue_time: 0s, overload: shed}}\n",
      "classes: {interactive: {overload: queue}, batch: {degrade_above: 200000}}\n",
  };
  for (const char* yaml : cases) EXPECT_EQ(problems(yaml), "") << yaml;
}

}  // namespace
}  // namespace penstock::configuration
