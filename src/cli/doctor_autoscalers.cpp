#include "cli/doctor_autoscalers.h"

#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "connect/kubernetes/external_metrics.h"
#include "connect/kubernetes/json_values.h"

namespace penstock::cli {
namespace {

using connect::json_part, connect::json_text;
using State = Finding::State;
using Json = nlohmann::json;

const connect::ApiResource kScaledObjects{"keda.sh", "v1alpha1", "scaledobjects"},
    kApiServices{"apiregistration.k8s.io", "v1", "apiservices"};
constexpr const char* kMetricsApi = "v1beta1.external.metrics.k8s.io";

connect::ApiAnswer list_of(BlockingClient& client, const connect::ApiResource& resource,
                           const std::string& in_namespace) {
  connect::ApiCall call;
  call.verb = "list";
  call.resource = resource;
  call.in_namespace = in_namespace;
  return client.request(std::move(call));
}

// An absent definition is missing; what may not be read is unknown.
void set_failure(Finding& finding, const connect::ApiError& error) {
  finding.state = error.reason == connect::ApiReason::kNotFound ? State::kMissing : State::kUnknown;
  finding.detail = error.message();
}

void set_missing(Finding& finding, std::string detail) {
  finding.state = State::kMissing;
  finding.detail = std::move(detail);
}

// A condition that has the status, as a clause; empty: there is none.
std::string condition_that_is(const char* status, const Json& object, const char* type) {
  for (const Json& condition : json_part(json_part(object, "status"), "conditions"))
    if (json_text(condition, "type") == type && json_text(condition, "status") == status)
      return fmt::format("{} is {}: {}", type, status, json_text(condition, "message"));
  return {};
}
std::string false_condition(const Json& object, const char* type) { return condition_that_is("False", object, type); }

// Why KEDA does not follow the triggers of a ScaledObject; empty: it follows them. Ready states whether the object is
// valid and its triggers answer, and is Unknown where some do not. Whether the HPA reads them is a part of Ready in
// KEDA 2.20, and HPAActive since 2.21. Active may be False where nothing is wrong.
std::string keda_fault(const Json& object) {
  struct Fault {
    const char *type, *status;
  };
  constexpr std::array<Fault, 5> kFaults{
      {{"Ready", "False"}, {"Paused", "True"}, {"Fallback", "True"}, {"HPAActive", "False"}, {"Ready", "Unknown"}}};
  for (const Fault& fault : kFaults)
    if (std::string text = condition_that_is(fault.status, object, fault.type); !text.empty()) return text;
  return {};
}

// The kind of KEDA's scaleTargetRef is a Deployment by default.
bool scales(const Json& object, const deployment::ScaleTarget& target) {
  const Json& reference = json_part(json_part(object, "spec"), "scaleTargetRef");
  const std::string kind = json_text(reference, "kind");
  return json_text(reference, "name") == target.name && (kind.empty() ? "Deployment" : kind) == target.kind;
}

bool has_trigger(const Json& spec, const std::string& pool) {
  for (const Json& trigger : json_part(spec, "triggers"))
    if (json_text(trigger, "type").starts_with("external") && json_text(json_part(trigger, "metadata"), "pool") == pool)
      return true;
  return false;
}

bool reads_target(const Json& spec, const std::string& pool) {
  for (const Json& metric : json_part(spec, "metrics")) {
    const Json& read = json_part(json_part(metric, "external"), "metric");
    const Json& labels = json_part(json_part(read, "selector"), "matchLabels");
    if (json_text(read, "name") == connect::ExternalMetrics::kMetric && json_text(labels, "pool") == pool) return true;
  }
  return false;
}

const Json* find_autoscaler(const Json& list, const deployment::ScaleTarget& target) {
  for (const Json& item : json_part(list, "items"))
    if (scales(item, target)) return &item;
  return nullptr;
}

std::string shown(const Json& object, std::int64_t least, std::int64_t most) {
  return fmt::format("\"{}\", {} to {} replicas", json_text(json_part(object, "metadata"), "name"), least, most);
}

}  // namespace

std::vector<Finding> check_scaled_objects(BlockingClient& client, const std::vector<deployment::ScaleTarget>& targets) {
  std::vector<Finding> findings;
  for (const deployment::ScaleTarget& target : targets) {
    Finding& finding = findings.emplace_back();
    finding.what =
        fmt::format("ScaledObject of {} \"{}\" in namespace \"{}\"", target.kind, target.name, target.in_namespace);
    const auto list = list_of(client, kScaledObjects, target.in_namespace);
    if (!list) {
      set_failure(finding, list.error());
      continue;
    }
    const Json* object = find_autoscaler(*list, target);
    if (object == nullptr) {
      set_missing(finding, "apply the one that `penstock manifests planner --autoscaler keda` writes");
      continue;
    }
    const Json& spec = json_part(*object, "spec");
    const std::int64_t least = connect::json_number(spec, "minReplicaCount").value_or(0);
    finding.detail = shown(*object, least, connect::json_number(spec, "maxReplicaCount").value_or(100));
    if (!has_trigger(spec, target.pool))
      set_missing(finding,
                  fmt::format("it has no trigger of type external-push with metadata.pool \"{}\"; compare with "
                              "`penstock manifests planner --autoscaler keda`",
                              target.pool));
    else if (least < 1 && target.replicas_min > 0)
      set_missing(finding,
                  "minReplicaCount is 0, with which KEDA may scale to zero while the planner is away; set it to "
                  "at least 1");
    else if (std::string fault = keda_fault(*object); !fault.empty())
      set_missing(finding, std::move(fault));
  }
  return findings;
}

std::vector<Finding> check_external_metrics(BlockingClient& client, const std::string& planner_namespace,
                                            const std::vector<deployment::ScaleTarget>& targets) {
  std::vector<Finding> findings;
  Finding& served = findings.emplace_back();
  served.what = fmt::format("APIService {}", kMetricsApi);
  const auto service = client.request(connect::get_call(kApiServices, {}, kMetricsApi));
  if (!service) {
    set_failure(served, service.error());
    if (served.state == State::kMissing)
      served.detail = "apply the one that `penstock manifests planner --autoscaler hpa` writes";
  } else {
    const Json& by = json_part(json_part(*service, "spec"), "service");
    const std::string of =
        fmt::format("Service \"{}\" in namespace \"{}\"", json_text(by, "name"), json_text(by, "namespace"));
    served.detail = of;
    if (json_text(by, "namespace") != planner_namespace)
      set_missing(served, "it is served by the " + of +
                              "; a cluster has one provider of external metrics: remove that one, or use KEDA");
    else if (std::string fault = false_condition(*service, "Available"); !fault.empty())
      set_missing(served, std::move(fault));
  }
  for (const deployment::ScaleTarget& target : targets) {
    Finding& finding = findings.emplace_back();
    finding.what = fmt::format("HorizontalPodAutoscaler of {} \"{}\" in namespace \"{}\"", target.kind, target.name,
                               target.in_namespace);
    const auto list = list_of(client, connect::kHorizontalAutoscalers, target.in_namespace);
    if (!list) {
      set_failure(finding, list.error());
      continue;
    }
    const Json* object = find_autoscaler(*list, target);
    if (object == nullptr) {
      set_missing(finding, "apply the one that `penstock manifests planner --autoscaler hpa` writes");
      continue;
    }
    const Json& spec = json_part(*object, "spec");
    finding.detail = shown(*object, connect::json_number(spec, "minReplicas").value_or(1),
                           connect::json_number(spec, "maxReplicas").value_or(0));
    if (!reads_target(spec, target.pool))
      set_missing(finding,
                  fmt::format("it does not read {} of the pool \"{}\"; compare with `penstock manifests planner "
                              "--autoscaler hpa`",
                              connect::ExternalMetrics::kMetric, target.pool));
    else if (std::string fault = false_condition(*object, "ScalingActive"); !fault.empty())
      set_missing(finding, std::move(fault));
  }
  return findings;
}

}  // namespace penstock::cli
