#include "deployment/load_autoscaler.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace penstock::deployment {
namespace {

LoadAutoscaler two_targets() {
  LoadAutoscaler made;
  made.target = {"chat", "apps/v1", "Deployment", "llm-chat", "llm", 1, 40};
  made.targets = {{LoadMetric::kTokenOutRate, 8000.0}, {LoadMetric::kKvUtilization, 0.75}};
  made.prometheus = "http://p:9090";
  return made;
}

TEST(LoadAutoscaler, AQueryAddsUpTheReplicasOfThePool) {
  const LoadSeries series{"chat", "llm", 30};
  const std::string labels = R"({pool="chat",namespace=~"llm|"})";
  EXPECT_EQ(load_query(LoadMetric::kTokenInRate, series),
            "sum(max by (replica) (rate(tokens_in_total" + labels + "[30s])))");
  EXPECT_EQ(load_query(LoadMetric::kTokenOutRate, series),
            "sum(max by (replica) (rate(tokens_out_total" + labels + "[30s])))");
  EXPECT_EQ(load_query(LoadMetric::kQueueDepth, series), "sum(max by (replica) (llm_queue_depth" + labels + "))");
  EXPECT_EQ(load_query(LoadMetric::kKvUtilization, series),
            "sum(max by (replica) (llm_kv_cache_usage_ratio" + labels + "))")
      << "a mean over the replicas after KEDA's division";
}

TEST(LoadAutoscaler, AValueOfThePoolCountsOnceForEachReplica) {
  const LoadSeries series{"chat", "llm", 30};
  const std::string labels = R"(pool="chat",namespace=~"llm|")";
  const std::string replicas = "max by (pool, replica) (llm_queue_depth{" + labels + "}) * 0 + on () group_left () ";
  EXPECT_EQ(
      load_query(LoadMetric::kSloBurnRate, series),
      "sum(max by (replica) (" + replicas + "(max(penstock_decision_evidence{name=\"burn_rate\"," + labels + "}))))");
  EXPECT_EQ(load_query(LoadMetric::kTtftP95, series),
            "sum(max by (replica) (" + replicas +
                "(histogram_quantile(0.95, sum by (le) (max by (replica, le) (rate(llm_ttft_seconds_bucket{" + labels +
                "}[30s])))) >= 0 or sum(rate(llm_ttft_seconds_count{" + labels +
                "}[30s])) == 0 and sum(llm_queue_depth{" + labels + "}) == 0)))");
}

TEST(LoadAutoscaler, KedaFallsBackToTheReplicasThatThereAre) {
  LoadAutoscaler made = two_targets();
  EXPECT_FALSE(scaled_object_of(made)["spec"].contains("fallback"));
  made.keda.fallback = Fallback{3, 2};
  EXPECT_EQ(scaled_object_of(made)["spec"]["fallback"].dump(),
            R"({"failureThreshold":3,"replicas":2,"behavior":"currentReplicasIfHigher"})");
  made.keda.fallback->is_static = true;
  EXPECT_EQ(scaled_object_of(made)["spec"]["fallback"].dump(), R"({"failureThreshold":3,"replicas":2})");
}

TEST(LoadAutoscaler, TimesOfTheCalendarAreTriggersBesideTheOthers) {
  LoadAutoscaler made = two_targets();
  made.keda.crons = {{"Europe/Berlin", "0 8 * * 1-5", "0 18 * * 1-5", 6}};
  const auto triggers = scaled_object_of(made)["spec"]["triggers"];
  ASSERT_EQ(triggers.size(), 3U);
  EXPECT_EQ(triggers[2].dump(),
            R"({"type":"cron","metadata":{"timezone":"Europe/Berlin","start":"0 8 * * 1-5","end":"0 18 * * 1-5",)"
            R"("desiredReplicas":"6"}})");
}

TEST(LoadAutoscaler, EachMetricIsFoundByItsName) {
  for (const std::string_view name : load_metric_names()) {
    ASSERT_TRUE(find_load_metric(name)) << name;
    EXPECT_EQ(name_of(*find_load_metric(name)), name);
  }
  EXPECT_FALSE(find_load_metric("requests"));
  EXPECT_FALSE(find_load_metric(""));
}

TEST(LoadAutoscaler, RulesThatAreNotSetAreLeftToKubernetes) {
  EXPECT_TRUE(behaviour_of({}, {}).is_null());
  EXPECT_EQ(behaviour_of({0, {}}, {}).dump(), R"({"scaleUp":{"stabilizationWindowSeconds":0}})");
  EXPECT_EQ(behaviour_of({}, {{}, ScalingPolicy{50, true, 60}}).dump(),
            R"({"scaleDown":{"policies":[{"type":"Percent","value":50,"periodSeconds":60}]}})");
  EXPECT_FALSE(pod_autoscaler_of(two_targets())["spec"].contains("behavior"));
}

TEST(LoadAutoscaler, BothAutoscalersHaveTheSameTargetsAndRules) {
  LoadAutoscaler made = two_targets();
  made.targets.push_back({LoadMetric::kQueueDepth, 1'000'000.0});
  made.polling_s = 10;
  made.cooldown_s = 120;
  made.up = {30, ScalingPolicy{3, false, 60}};
  const auto keda = scaled_object_of(made)["spec"], hpa = pod_autoscaler_of(made)["spec"];
  EXPECT_EQ(keda["advanced"]["horizontalPodAutoscalerConfig"]["behavior"], hpa["behavior"]);
  EXPECT_EQ(keda["pollingInterval"], 10);
  EXPECT_EQ(keda["cooldownPeriod"], 120);
  EXPECT_EQ(keda["triggers"][1]["metadata"]["threshold"], "0.75");
  EXPECT_EQ(keda["triggers"][1]["metadata"]["ignoreNullValues"], "false") << "what is missing is not zero";
  EXPECT_EQ(hpa["metrics"][1]["pods"]["target"]["averageValue"], "0.75");
  EXPECT_EQ(keda["triggers"][2]["metadata"]["threshold"], "1000000");
  EXPECT_EQ(hpa["metrics"][2]["pods"]["target"]["averageValue"], "1000000");
  EXPECT_EQ(hpa["scaleTargetRef"]["name"], "llm-chat");
  EXPECT_EQ(hpa["maxReplicas"], 40);
}

TEST(LoadAutoscaler, MetricsOfPodsAreRecordedForEachTarget) {
  const std::string text = token_rule_of("llm-token-rates", "llm", {two_targets()});
  EXPECT_NE(text.find("\n  groups:\n    - name: llm-token-rates\n      rules:\n        - record: llm:token_in_rate:1m"),
            std::string::npos);
  EXPECT_NE(text.find("\n    - name: llm-pod-metrics\n      rules:\n        - record: llm_token_out_rate\n"),
            std::string::npos);
  EXPECT_NE(text.find("        - record: llm_kv_utilization\n"), std::string::npos);
  EXPECT_NE(text.find("          labels:\n            namespace: llm\n"), std::string::npos);
  EXPECT_EQ(token_rule_of("a", "llm", {}).find("llm-pod-metrics"), std::string::npos);
}

}  // namespace
}  // namespace penstock::deployment
