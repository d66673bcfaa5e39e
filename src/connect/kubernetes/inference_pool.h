// InferencePools of the Gateway API Inference Extension, as values.
// Source: https://gateway-api-inference-extension.sigs.k8s.io/api-types/inferencepool/
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "connect/kubernetes/api_call.h"
#include "connect/kubernetes/label_selector.h"

namespace penstock::connect {

inline constexpr std::string_view kInferencePoolGroup = "inference.networking.k8s.io";
// The group of version v1alpha2, whose fields differ.
inline constexpr std::string_view kInferencePoolOldGroup = "inference.networking.x-k8s.io";

[[nodiscard]] ApiResource inference_pools(std::string_view group);

struct InferencePool {
  Labels labels;                     // Of its pods; empty: it selects none.
  std::vector<std::uint16_t> ports;  // Of the engines in each pod, in their order, each once.

  [[nodiscard]] std::string selector() const;  // As it comes in queries: "a=b,c=d".
  friend bool operator==(const InferencePool&, const InferencePool&) = default;
};
// Reads objects of both groups.
[[nodiscard]] InferencePool parse_inference_pool(const nlohmann::json& object);

}  // namespace penstock::connect
