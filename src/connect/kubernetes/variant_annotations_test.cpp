#include "connect/kubernetes/variant_annotations.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace penstock::connect {
namespace {

using Json = nlohmann::json;

// The samples of llm-d-workload-variant-autoscaler 0.9, config/samples/hpa/annotations.
Json autoscaler() {
  return Json::parse(R"({"metadata": {"name": "chat-hpa", "annotations": {
      "llm-d.ai/managed": "true", "llm-d.ai/model-id": "org/model", "llm-d.ai/variant-cost": "10.0"}},
    "spec": {"minReplicas": 2, "maxReplicas": 10, "metrics": [{"type": "External", "external": {"metric": {
      "name": "wva_desired_replicas", "selector": {"matchLabels": {
        "variant_name": "chat", "exported_namespace": "llm"}}}}}]}})");
}

TEST(VariantAnnotations, OfAnAutoscalerThatReadsTheMetric) {
  const auto made = autoscaler_annotations(autoscaler());
  ASSERT_TRUE(made);
  EXPECT_EQ(made->object, R"(HorizontalPodAutoscaler "chat-hpa")");
  EXPECT_EQ(made->variant, "chat");
  EXPECT_EQ(made->managed_name, "chat-hpa");
  EXPECT_EQ(made->model, "org/model");
  EXPECT_EQ(made->cost, 10.0);
  EXPECT_EQ(made->min_replicas, 2U);
  EXPECT_EQ(made->max_replicas, 10U);
  EXPECT_TRUE(made->faults.empty());
}

TEST(VariantAnnotations, AnAutoscalerWithoutTheAnnotationIsOneOfWvaIfItReadsTheMetric) {
  Json object = autoscaler();
  object["metadata"]["annotations"]["llm-d.ai/managed"] = "yes";
  ASSERT_TRUE(autoscaler_annotations(object));
  EXPECT_EQ(autoscaler_annotations(object)->managed_name, "");
  object["spec"]["metrics"][0]["external"]["metric"]["name"] = "queue_length";
  EXPECT_EQ(autoscaler_annotations(object), std::nullopt);
}

TEST(VariantAnnotations, AScaledObjectGivesTheNameOfTheAutoscalerThatKedaMadeOfIt) {
  Json object = autoscaler();
  object["metadata"]["ownerReferences"] = {{{"kind", "ScaledObject"}, {"name", "chat-scaler"}}};
  object["spec"].erase("metrics");
  const auto made = autoscaler_annotations(object);
  ASSERT_TRUE(made);
  EXPECT_EQ(made->object, R"(ScaledObject "chat-scaler")");
  EXPECT_EQ(made->variant, "");
  EXPECT_EQ(made->managed_name, "chat-scaler");
}

TEST(VariantAnnotations, InvalidOnesAreFaults) {
  Json object = autoscaler();
  object["metadata"]["annotations"].erase("llm-d.ai/model-id");
  for (const char* cost : {"-1", "ten", "1 USD", "nan"}) {
    object["metadata"]["annotations"]["llm-d.ai/variant-cost"] = cost;
    const auto made = autoscaler_annotations(object);
    ASSERT_TRUE(made);
    EXPECT_EQ(made->cost, std::nullopt);
    ASSERT_EQ(made->faults.size(), 2U);
    EXPECT_EQ(made->faults[0],
              std::string{"llm-d.ai/variant-cost: must be a number of at least 0, is \""} + cost + "\"");
    EXPECT_EQ(made->faults[1], "llm-d.ai/model-id: is missing");
  }
  for (const char* odd : {"[]", "7", R"({"spec": []})", R"({"metadata": {"annotations": ["x"]}})"})
    EXPECT_EQ(autoscaler_annotations(Json::parse(odd)), std::nullopt) << odd;
}

TEST(VariantAnnotations, OfATargetComeFromItsPods) {
  Json object = Json::parse(R"({"metadata": {"annotations": {"llm-d.ai/model-id": "m", "llm-d.ai/variant-cost": "2.5"},
      "labels": {"inference.optimization/acceleratorName": "A100"}},
    "spec": {"template": {"metadata": {"labels": {"llm-d.ai/variant": "chat-a"}}, "spec": {}}}})");
  EXPECT_EQ(target_annotations(object).variant, "chat-a");
  EXPECT_EQ(target_annotations(object).model, "m");
  EXPECT_EQ(target_annotations(object).cost, 2.5);
  EXPECT_EQ(target_annotations(object).accelerator, "A100");
  Json& pods = object["spec"]["template"]["spec"];
  const Json terms = {
      {{"matchExpressions", {{{"key", "nvidia.com/gpu.product"}, {"operator", "In"}, {"values", {"NVIDIA-H200"}}}}}}};
  pods["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"] = terms;
  EXPECT_EQ(target_annotations(object).accelerator, "NVIDIA-H200");
  pods["nodeSelector"]["amd.com/gpu.product-name"] = "AMD-MI300X";
  EXPECT_EQ(target_annotations(object).accelerator, "AMD-MI300X");
  object["spec"]["leaderWorkerTemplate"]["workerTemplate"] = {{"metadata", {{"labels", {{"llm-d.ai/variant", "w"}}}}}};
  EXPECT_EQ(target_annotations(object).variant, "w");
  EXPECT_EQ(target_annotations(Json::array()), VariantAnnotations{});
}

}  // namespace
}  // namespace penstock::connect
