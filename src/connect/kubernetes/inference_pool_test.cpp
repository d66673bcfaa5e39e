#include "connect/kubernetes/inference_pool.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace penstock::connect {
namespace {

InferencePool parsed(const char* spec) {
  return parse_inference_pool({{"metadata", {{"name", "chat"}}}, {"spec", nlohmann::json::parse(spec)}});
}

TEST(InferencePool, ReadsTheSelectorAndEachPortOfV1) {
  const InferencePool pool =
      parsed(R"({"selector": {"matchLabels": {"app": "vllm", "tier": "a"}}, "endpointPickerRef": {"name": "epp"},
                 "targetPorts": [{"number": 8001}, {"number": 8000}, {"number": 8001}]})");
  EXPECT_EQ(pool.selector(), "app=vllm,tier=a");
  EXPECT_EQ(pool.ports, (std::vector<std::uint16_t>{8001, 8000}));
  EXPECT_EQ(target_of(get_call(inference_pools(kInferencePoolGroup), "n", "chat")),
            "/apis/inference.networking.k8s.io/v1/namespaces/n/inferencepools/chat");
}

TEST(InferencePool, ReadsTheSelectorAndThePortOfV1alpha2) {
  const InferencePool pool = parsed(R"({"selector": {"app": "vllm"}, "targetPortNumber": 8200})");
  EXPECT_EQ(pool.selector(), "app=vllm");
  EXPECT_EQ(pool.ports, (std::vector<std::uint16_t>{8200}));
  EXPECT_EQ(target_of(get_call(inference_pools(kInferencePoolOldGroup), "n", "chat")),
            "/apis/inference.networking.x-k8s.io/v1alpha2/namespaces/n/inferencepools/chat");
}

TEST(InferencePool, FieldsOfOtherTypesAndPortsOutOfRangeAreLeftOut) {
  const InferencePool pool = parsed(R"({"selector": {"matchLabels": {"app": 1}}, "targetPortNumber": "8000",
                                        "targetPorts": [{"number": 0}, {"number": 65536}, 7, {"number": 9}]})");
  EXPECT_EQ(pool.selector(), "");
  EXPECT_EQ(pool.ports, (std::vector<std::uint16_t>{9}));
  EXPECT_EQ(parse_inference_pool(nlohmann::json::array()), InferencePool{});
  EXPECT_EQ(parsed(R"({"selector": [1, "a"], "targetPorts": {"number": 8000}})"), InferencePool{});
}

}  // namespace
}  // namespace penstock::connect
