#include "connect/kubernetes/pods.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <nlohmann/json.hpp>
#include <string_view>

#include "connect/kubernetes/json_values.h"
#include "connect/kubernetes/pod_groups.h"
#include "options/timestamps.h"

namespace penstock::connect {
namespace {

using Json = nlohmann::json;

constexpr const char* kMoved = "moved";  // Value of the mark of a pod that has got the labels of another target.
constexpr const char* kDeletionCost = "controller.kubernetes.io/pod-deletion-cost";
constexpr std::size_t kCauseBytes = 300;
constexpr std::int64_t kGroupSizeMax = 1024, kGpusMax = 1024, kGraceMaxS = 30 * 24 * 3600;

// Reasons for which a container waits that are no part of a normal start.
constexpr std::array<std::string_view, 7> kStuck = {
    "CrashLoopBackOff",           "ImagePullBackOff",     "ErrImagePull",     "InvalidImageName",
    "CreateContainerConfigError", "CreateContainerError", "RunContainerError"};

std::optional<std::int64_t> unix_s(const std::string& text) {
  const auto time = options::parse_timestamp(text);
  if (!time) return std::nullopt;
  return std::chrono::duration_cast<std::chrono::seconds>(*time).count();
}

std::string cause_of(const Json& object) {
  const std::string reason = json_text(object, "reason"), message = json_text(object, "message");
  return (message.empty() ? reason : reason + ": " + message).substr(0, kCauseBytes);
}

void read_conditions(const Json& status, PodState& pod) {
  for (const Json& condition : json_part(status, "conditions")) {
    const std::string type = json_text(condition, "type");
    const bool is_true = json_text(condition, "status") == "True";
    if (type == "Ready") {
      pod.is_ready = is_true;
      if (is_true) pod.ready_s = unix_s(json_text(condition, "lastTransitionTime"));
    }
    if (type == "PodScheduled" && !is_true) pod.blocked_by = cause_of(condition);
  }
}

void read_containers(const Json& status, PodState& pod) {
  for (const Json& container : json_part(status, "containerStatuses"))
    pod.restarts += json_number(container, "restartCount").value_or(0);
  for (const char* list : {"initContainerStatuses", "containerStatuses"})
    for (const Json& container : json_part(status, list)) {
      const Json& waiting = json_part(json_part(container, "state"), "waiting");
      const std::string reason = json_text(waiting, "reason");
      if (pod.blocked_by.empty() && std::find(kStuck.begin(), kStuck.end(), reason) != kStuck.end())
        pod.blocked_by = cause_of(waiting);
    }
}

// A number from 0 to `most`; quantities such as "1k" do not occur for pods and GPUs.
std::optional<std::uint32_t> count_of(const Json& value, std::int64_t most) {
  std::int64_t number = -1;
  if (value.is_string()) {
    const auto& text = value.get_ref<const std::string&>();
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  } else if (value.is_number_unsigned()) {
    number = static_cast<std::int64_t>(std::min<std::uint64_t>(value.get<std::uint64_t>(), INT64_MAX));
  }
  if (number < 0 || number > most) return std::nullopt;
  return static_cast<std::uint32_t>(number);
}

std::uint32_t gpus_of(const Json& spec) {
  std::uint32_t gpus = 0;
  for (const Json& container : json_part(spec, "containers"))
    for (const auto& [name, value] : json_part(json_part(container, "resources"), "limits").items())
      if (name.ends_with("/gpu")) gpus += count_of(value, kGpusMax).value_or(0);
  return gpus;
}

std::optional<RequestedRole> role_in(const std::string& text) {
  const std::size_t slash = text.find('/');
  if (slash == std::string::npos) return std::nullopt;
  RequestedRole made{text.substr(0, slash), 0};
  const char* const end = text.data() + text.size();
  const auto [last, error] = std::from_chars(text.data() + slash + 1, end, made.restarts);
  if (error != std::errc{} || last != end) return std::nullopt;
  return made;
}

}  // namespace

PodState parse_pod(const Json& object) {
  const Json &metadata = json_part(object, "metadata"), &status = json_part(object, "status");
  const Json& annotations = json_part(metadata, "annotations");
  PodState pod;
  pod.name = json_text(metadata, "name");
  pod.uid = json_text(metadata, "uid");
  pod.version = json_text(metadata, "resourceVersion");
  pod.address = json_text(status, "podIP");
  pod.node = json_text(json_part(object, "spec"), "nodeName");
  for (const auto& [name, value] : json_part(metadata, "labels").items())
    if (value.is_string()) pod.labels.emplace(name, value.get<std::string>());
  pod.is_terminating = !json_text(metadata, "deletionTimestamp").empty();
  pod.grace_s =
      std::clamp<std::int64_t>(json_number(metadata, "deletionGracePeriodSeconds").value_or(0), 0, kGraceMaxS);
  const std::string phase = json_text(status, "phase");
  pod.has_ended = phase == "Succeeded" || phase == "Failed";
  pod.is_marked = annotations.is_object() && annotations.contains(kDrainAnnotation);
  pod.has_moved = json_text(annotations, kDrainAnnotation) == kMoved;
  const std::string cost = json_text(annotations, kDeletionCost);
  std::from_chars(cost.data(), cost.data() + cost.size(), pod.deletion_cost);
  pod.requested_role = role_in(json_text(annotations, kRoleAnnotation));
  for (const Json& owner : json_part(metadata, "ownerReferences"))
    if (json_part(owner, "controller") == true) pod.controller_uid = json_text(owner, "uid");
  for (const char* label : {"pod-template-hash", "controller-revision-hash"})
    if (const auto found = pod.labels.find(label); found != pod.labels.end()) pod.revision = found->second;
  pod.gpus = gpus_of(json_part(object, "spec"));
  pod.group_size = std::max(1U, count_of(json_part(annotations, kGroupSizeAnnotation), kGroupSizeMax).value_or(1));
  pod.created_s = unix_s(json_text(metadata, "creationTimestamp"));
  read_conditions(status, pod);
  read_containers(status, pod);
  return pod;
}

ApiCall mark_pod_call(const std::string& in_namespace, const PodIdentity& pod,
                      std::optional<std::int64_t> deletion_cost) {
  Json annotations{{kDrainAnnotation, nullptr}, {kDeletionCost, nullptr}};
  if (deletion_cost) annotations = {{kDrainAnnotation, "true"}, {kDeletionCost, std::to_string(*deletion_cost)}};
  return merge_patch_call(kPods, in_namespace, pod.name,
                          {{"metadata", {{"uid", pod.uid}, {"annotations", std::move(annotations)}}}});
}

ApiCall set_role_call(const std::string& in_namespace, const PodIdentity& pod, const RequestedRole& role) {
  const std::string text = fmt::format("{}/{}", role.role, role.restarts);
  return merge_patch_call(kPods, in_namespace, pod.name,
                          {{"metadata", {{"uid", pod.uid}, {"annotations", {{kRoleAnnotation, text}}}}}});
}

ApiCall move_pod_call(const std::string& in_namespace, const PodIdentity& pod, const Labels& from, const Labels& to) {
  Json labels = Json::object();
  for (const auto& [name, value] : from) labels[name] = nullptr;
  for (const auto& [name, value] : to) labels[name] = value;
  return merge_patch_call(
      kPods, in_namespace, pod.name,
      {{"metadata", {{"uid", pod.uid}, {"labels", std::move(labels)}, {"annotations", {{kDrainAnnotation, kMoved}}}}}});
}

}  // namespace penstock::connect
