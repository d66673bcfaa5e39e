#include "connect/kubernetes/inference_pool.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "connect/kubernetes/json_values.h"

namespace penstock::connect {

ApiResource inference_pools(std::string_view group) {
  return {std::string{group}, group == kInferencePoolOldGroup ? "v1alpha2" : "v1", "inferencepools"};
}

std::string InferencePool::selector() const {
  std::string text;
  for (const auto& [name, value] : labels) text.append(text.empty() ? "" : ",").append(name).append("=").append(value);
  return text;
}

InferencePool parse_inference_pool(const nlohmann::json& object) {
  const nlohmann::json& spec = json_part(object, "spec");
  const nlohmann::json &selector = json_part(spec, "selector"), &match = json_part(selector, "matchLabels");
  InferencePool made;
  if (const nlohmann::json& labels = match.is_object() ? match : selector; labels.is_object())
    for (const auto& [name, value] : labels.items())
      if (value.is_string()) made.labels.emplace(name, value.get<std::string>());
  const auto add_port = [&](const nlohmann::json& part, const char* name) {
    const auto number = json_number(part, name);
    if (!number || *number < 1 || *number > UINT16_MAX) return;
    const auto port = static_cast<std::uint16_t>(*number);
    if (std::find(made.ports.begin(), made.ports.end(), port) == made.ports.end()) made.ports.push_back(port);
  };
  if (const nlohmann::json& ports = json_part(spec, "targetPorts"); ports.is_array())
    for (const nlohmann::json& port : ports) add_port(port, "number");
  add_port(spec, "targetPortNumber");
  return made;
}

}  // namespace penstock::connect
