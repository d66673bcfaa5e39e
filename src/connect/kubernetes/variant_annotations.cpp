#include "connect/kubernetes/variant_annotations.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

#include "connect/kubernetes/json_values.h"

namespace penstock::connect {
namespace {

using Json = nlohmann::json;

constexpr const char* kManaged = "llm-d.ai/managed";
constexpr const char* kModel = "llm-d.ai/model-id";
constexpr const char* kCost = "llm-d.ai/variant-cost";
constexpr const char* kVariant = "llm-d.ai/variant";                            // Label of pods.
constexpr const char* kAccelerator = "inference.optimization/acceleratorName";  // Label of objects.
constexpr const char* kMetric = "wva_desired_replicas";
// Labels of nodes that name the accelerator.
constexpr std::array<const char*, 5> kProducts{"amd.com/gpu.product-name", "cloud.google.com/gke-accelerator",
                                               "gpu.intel.com/product", "habana.ai/product.name",
                                               "nvidia.com/gpu.product"};

void read_annotations(const Json& object, VariantAnnotations& made) {
  const Json& metadata = json_part(object, "metadata");
  const Json& annotations = json_part(metadata, "annotations");
  made.model = json_text(annotations, kModel);
  made.accelerator = json_text(json_part(metadata, "labels"), kAccelerator);
  const std::string cost = json_text(annotations, kCost);
  if (cost.empty()) return;
  double value = 0.0;
  const auto [end, error] = std::from_chars(cost.data(), cost.data() + cost.size(), value);
  if (error == std::errc{} && end == cost.data() + cost.size() && std::isfinite(value) && value >= 0.0)
    made.cost = value;
  else
    made.faults.push_back(fmt::format("{}: must be a number of at least 0, is \"{}\"", kCost, cost));
}

std::string accelerator_of_term(const Json& term) {
  for (const char* product : kProducts)
    for (const Json& expression : json_part(term, "matchExpressions")) {
      const Json& values = json_part(expression, "values");
      if (json_text(expression, "key") == product && json_text(expression, "operator") == "In" && values.is_array() &&
          !values.empty() && values[0].is_string())
        return values[0].get<std::string>();
    }
  return {};
}

// The accelerator that the pods demand of their nodes, or else the one that they prefer.
std::string accelerator_of_pods(const Json& spec) {
  for (const char* product : kProducts)
    if (std::string name = json_text(json_part(spec, "nodeSelector"), product); !name.empty()) return name;
  const Json& affinity = json_part(json_part(spec, "affinity"), "nodeAffinity");
  for (const Json& term :
       json_part(json_part(affinity, "requiredDuringSchedulingIgnoredDuringExecution"), "nodeSelectorTerms"))
    if (std::string name = accelerator_of_term(term); !name.empty()) return name;
  for (const Json& each : json_part(affinity, "preferredDuringSchedulingIgnoredDuringExecution"))
    if (std::string name = accelerator_of_term(json_part(each, "preference")); !name.empty()) return name;
  return {};
}

// The template of the pods, which a LeaderWorkerSet has for the leader and for the others.
const Json& pods_of(const Json& spec) {
  const Json& group = json_part(spec, "leaderWorkerTemplate");
  if (!group.is_object()) return json_part(spec, "template");
  const Json& leader = json_part(group, "leaderTemplate");
  return leader.is_object() ? leader : json_part(group, "workerTemplate");
}

// The name of the variant that the autoscaler reads the metric of; nothing: it reads another metric.
std::optional<std::string> variant_of_metrics(const Json& spec) {
  for (const Json& metric : json_part(spec, "metrics")) {
    const Json& external = json_part(json_part(metric, "external"), "metric");
    if (json_text(external, "name") == kMetric)
      return json_text(json_part(json_part(external, "selector"), "matchLabels"), "variant_name");
  }
  return std::nullopt;
}

std::optional<std::uint32_t> replicas_of(const Json& spec, const char* name) {
  const auto number = json_number(spec, name);
  if (!number || *number < 0 || *number > INT32_MAX) return std::nullopt;
  return static_cast<std::uint32_t>(*number);
}

}  // namespace

std::optional<VariantAnnotations> autoscaler_annotations(const Json& object) {
  const Json &metadata = json_part(object, "metadata"), &spec = json_part(object, "spec");
  const auto of_metrics = variant_of_metrics(spec);
  const bool is_managed = json_text(json_part(metadata, "annotations"), kManaged) == "true";
  if (!is_managed && !of_metrics) return std::nullopt;
  VariantAnnotations made;
  std::string kind = "HorizontalPodAutoscaler", name = json_text(metadata, "name");
  for (const Json& owner : json_part(metadata, "ownerReferences")) {
    kind = json_text(owner, "kind");
    name = json_text(owner, "name");
  }
  made.object = fmt::format("{} \"{}\"", kind, name);
  read_annotations(object, made);
  made.variant = of_metrics.value_or("");
  if (is_managed) made.managed_name = name;
  if (is_managed && made.model.empty()) made.faults.push_back(fmt::format("{}: is missing", kModel));
  made.min_replicas = replicas_of(spec, "minReplicas").value_or(1);
  made.max_replicas = replicas_of(spec, "maxReplicas");
  return made;
}

VariantAnnotations target_annotations(const Json& object) {
  VariantAnnotations made;
  const Json& pods = pods_of(json_part(object, "spec"));
  read_annotations(object, made);
  made.variant = json_text(json_part(json_part(pods, "metadata"), "labels"), kVariant);
  if (std::string name = accelerator_of_pods(json_part(pods, "spec")); !name.empty())
    made.accelerator = std::move(name);
  return made;
}

}  // namespace penstock::connect
