#include "connect/kubernetes/scale_target.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <nlohmann/json.hpp>
#include <utility>

#include "connect/kubernetes/json_values.h"

namespace penstock::connect {
namespace {

using Json = nlohmann::json;

struct TargetKind {
  std::string_view word, kind, group, version, plural;
  bool is_ordered;
};
constexpr std::array<TargetKind, 4> kKinds{{
    {"deployment", "Deployment", "apps", "v1", "deployments", false},
    {"statefulset", "StatefulSet", "apps", "v1", "statefulsets", true},
    {"leaderworkerset", "LeaderWorkerSet", "leaderworkerset.x-k8s.io", "v1", "leaderworkersets", true},
    {"dynamographdeploymentscalingadapter", "DynamoGraphDeploymentScalingAdapter", "nvidia.com", "v1beta1",
     "dynamographdeploymentscalingadapters", false},
}};

std::vector<std::string> parts_of(std::string_view text) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == '/')
      parts.emplace_back();
    else
      parts.back() += c;
  }
  return parts;
}

bool is_name(std::string_view text) {
  return !text.empty() && text.size() <= 253 && std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return std::islower(c) != 0 || std::isdigit(c) != 0 || c == '-' || c == '.';
  });
}

// A selector of an object as the text that LabelSelector reads.
std::string selector_text(const Json& selector) {
  std::string text;
  const auto add = [&](const std::string& requirement) { text += (text.empty() ? "" : ",") + requirement; };
  for (const auto& [name, value] : json_part(selector, "matchLabels").items())
    add(fmt::format("{}={}", name, value.is_string() ? value.get<std::string>() : ""));
  for (const Json& expression : json_part(selector, "matchExpressions")) {
    const std::string key = json_text(expression, "key"), kind = json_text(expression, "operator");
    std::string values;
    for (const Json& value : json_part(expression, "values"))
      if (value.is_string()) values += (values.empty() ? "" : ",") + value.get<std::string>();
    if (kind == "Exists")
      add(key);
    else if (kind == "DoesNotExist")
      add("!" + key);
    else
      add(fmt::format("{} {} ({})", key, kind == "In" ? "in" : "notin", values));
  }
  return text;
}

}  // namespace

core::Result<ScaleTarget> parse_scale_target(std::string_view text) {
  const std::vector<std::string> parts = parts_of(text);
  ScaleTarget made;
  made.name = parts.back();
  if (parts.size() == 2) {
    const auto kind =
        std::find_if(kKinds.begin(), kKinds.end(), [&](const TargetKind& each) { return each.word == parts[0]; });
    if (kind != kKinds.end()) {
      made.resource = {std::string{kind->group}, std::string{kind->version}, std::string{kind->plural}};
      made.is_ordered = kind->is_ordered;
    }
  } else if (parts.size() == 4 && std::all_of(parts.begin(), parts.end(), is_name)) {
    made.resource = {parts[0], parts[1], parts[2]};
    for (const TargetKind& kind : kKinds)
      if (kind.group == parts[0] && kind.plural == parts[2]) made.is_ordered = kind.is_ordered;
  }
  if (made.resource.plural.empty() || !is_name(made.name))
    return core::invalid_input({}, fmt::format("\"{}\" is no object with replicas", text),
                               "name it like deployment/NAME, statefulset/NAME, leaderworkerset/NAME, "
                               "dynamographdeploymentscalingadapter/NAME or GROUP/VERSION/PLURAL/NAME");
  return made;
}

std::string kind_of(const ScaleTarget& target) {
  for (const TargetKind& kind : kKinds)
    if (kind.group == target.resource.group && kind.plural == target.resource.plural) return std::string{kind.kind};
  // The usual plural of a kind that is not known here.
  std::string made = target.resource.plural;
  if (made.ends_with('s')) made.pop_back();
  if (!made.empty()) made[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(made[0])));
  return made;
}

std::string to_string(const ScaleTarget& target) {
  return fmt::format("{}.{} \"{}\"", target.resource.plural, target.resource.group, target.name);
}

bool is_same(const ScaleTarget& left, const ScaleTarget& right) {
  return left.resource.group == right.resource.group && left.resource.plural == right.resource.plural &&
         left.name == right.name;
}

ScaledObject parse_scaled_object(const Json& object) {
  const Json& metadata = json_part(object, "metadata");
  ScaledObject made;
  made.version = json_text(metadata, "resourceVersion");
  made.uid = json_text(metadata, "uid");
  std::vector<std::pair<std::string, std::string>> writers;  // Time and name.
  for (const Json& fields : json_part(metadata, "managedFields")) {
    const Json& spec = json_part(json_part(fields, "fieldsV1"), "f:spec");
    if (spec.is_object() && spec.contains("f:replicas"))
      writers.emplace_back(json_text(fields, "time"), json_text(fields, "manager"));
  }
  std::sort(writers.begin(), writers.end());
  for (auto& [time, name] : writers) made.writers.push_back(std::move(name));
  made.annotations = target_annotations(object);
  return made;
}

HorizontalAutoscaler parse_horizontal_autoscaler(const Json& object) {
  const Json& metadata = json_part(object, "metadata");
  const Json& target = json_part(json_part(object, "spec"), "scaleTargetRef");
  HorizontalAutoscaler made;
  made.title = fmt::format("HorizontalPodAutoscaler \"{}\"", json_text(metadata, "name"));
  for (const Json& owner : json_part(metadata, "ownerReferences"))
    made.title = fmt::format("{} \"{}\"", json_text(owner, "kind"), json_text(owner, "name"));
  const std::string version = json_text(target, "apiVersion");
  made.target_group = version.substr(0, version.find('/') == std::string::npos ? 0 : version.find('/'));
  made.target_kind = json_text(target, "kind");
  made.target_name = json_text(target, "name");
  made.annotations = autoscaler_annotations(object);
  return made;
}

bool scales(const HorizontalAutoscaler& autoscaler, const ScaleTarget& target) {
  std::string plural;
  for (const unsigned char c : autoscaler.target_kind) plural += static_cast<char>(std::tolower(c));
  return autoscaler.target_name == target.name && autoscaler.target_group == target.resource.group &&
         plural + "s" == target.resource.plural;
}

DisruptionBudget parse_disruption_budget(const Json& object) {
  const Json &metadata = json_part(object, "metadata"), &selector = json_part(json_part(object, "spec"), "selector");
  DisruptionBudget made;
  made.name = json_text(metadata, "name");
  made.version = json_text(metadata, "resourceVersion");
  if (auto parsed = LabelSelector::parse(selector_text(selector)); selector.is_object() && parsed) {
    made.selector = *std::move(parsed);
    made.selects_none = false;
  }
  const auto allowed = json_number(json_part(object, "status"), "disruptionsAllowed").value_or(0);
  made.allowed = static_cast<std::uint32_t>(std::clamp<std::int64_t>(allowed, 0, INT32_MAX));
  return made;
}

}  // namespace penstock::connect
