// Settings of pools that a configuration leaves open, and annotations of llm-d give.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "connect/kubernetes/variant_annotations.h"
#include "controller/gateway_feed.h"
#include "logging/log.h"
#include "report/metrics.h"
#include "signals/observation.h"

namespace penstock::controller {

// An annotation, and what became of it.
struct AnnotationNote {
  std::string pool, object, annotation, value;
  std::string ignored_because;  // Empty: it is in force.

  friend bool operator==(const AnnotationNote&, const AnnotationNote&) = default;
};

// The models that the gateway's replicas serve; empty: none is known.
[[nodiscard]] std::vector<std::string> models_of(const std::optional<GatewayState>& gateway);
// Takes out models that no replica serves: the planner would see no traffic of theirs, which looks like no load. While
// no model is known, none is taken over.
void check_models(const std::vector<std::string>& served, std::vector<connect::VariantAnnotations>& annotations);

// Whether the configuration or a flag gives the key of a pool, "min_replicas", or of all, "model".
using IsGiven = std::function<bool(std::size_t pool, std::string_view key)>;

// Sets what the configuration does not give. The annotations are by pool; the first that gives a value goes first.
[[nodiscard]] std::vector<AnnotationNote> apply_annotations(
    const std::vector<std::vector<connect::VariantAnnotations>>& annotations, const IsGiven& is_given,
    std::vector<signals::Pool>& pools, std::string& model);

// Writes each note to the log once, and again when it has changed.
class AnnotationLog {
 public:
  void write(const std::vector<AnnotationNote>& notes, logging::Log& log);

 private:
  std::vector<AnnotationNote> written_;
};

// The name of the pool in the series wva_*: that which its autoscaler reads, or the label of its pods, or the name of a
// managed autoscaler, or `otherwise`.
[[nodiscard]] report::Variant variant_of(const std::vector<connect::VariantAnnotations>& annotations,
                                         const std::string& pool, const std::string& otherwise,
                                         const std::string& in_namespace);

}  // namespace penstock::controller
