// What llm-d's workload-variant-autoscaler (WVA) reads from objects of Kubernetes. A variant is what Penstock calls a
// pool: replicas of one model on one type of accelerator.
// Source: internal/annotations and internal/accelerator of llm-d-workload-variant-autoscaler 0.9
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

namespace penstock::connect {

struct VariantAnnotations {
  std::string object;                                       // HorizontalPodAutoscaler "chat"
  std::string variant;                                      // Its name in the series wva_*; empty: none is given …
  std::string managed_name;                                 // … and then it is that of the managed autoscaler.
  std::string model;                                        // llm-d.ai/model-id
  std::string accelerator;                                  // As nodes are labelled: "NVIDIA-H100-80GB-HBM3".
  std::optional<double> cost;                               // llm-d.ai/variant-cost of one replica; it has no unit.
  std::optional<std::uint32_t> min_replicas, max_replicas;  // Of the autoscaler.
  std::vector<std::string> faults;                          // Annotations that cannot be used, and why.

  friend bool operator==(const VariantAnnotations&, const VariantAnnotations&) = default;
};

// Of a HorizontalPodAutoscaler with `llm-d.ai/managed: "true"`, or whose metric is wva_desired_replicas. KEDA copies
// the annotations of a ScaledObject to the HorizontalPodAutoscaler that it makes. Of all others nothing.
[[nodiscard]] std::optional<VariantAnnotations> autoscaler_annotations(const nlohmann::json& object);

// Of the object that has the replicas: its own annotations, and the labels and nodes of its pods. All may be empty,
// and `object` is.
[[nodiscard]] VariantAnnotations target_annotations(const nlohmann::json& object);

}  // namespace penstock::connect
