#include "connect/kubernetes/scale_target.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <nlohmann/json.hpp>
#include <utility>

#include "connect/kubernetes/json_values.h"
#include "connect/kubernetes/pod_groups.h"

namespace penstock::connect {
namespace {

using Json = nlohmann::json;

struct TargetKind {
  std::string_view word, kind, group, version, plural;
  bool is_ordered;
};
constexpr std::array<TargetKind, 5> kKinds{{
    {"deployment", "Deployment", "apps", "v1", "deployments", false},
    {"statefulset", "StatefulSet", "apps", "v1", "statefulsets", true},
    {"leaderworkerset", "LeaderWorkerSet", "leaderworkerset.x-k8s.io", "v1", "leaderworkersets", true},
    {"dynamographdeploymentscalingadapter", "DynamoGraphDeploymentScalingAdapter", "nvidia.com", "v1beta1",
     "dynamographdeploymentscalingadapters", false},
    {"dynamographdeployment", "DynamoGraphDeployment", "nvidia.com", "v1beta1", "dynamographdeployments", false},
}};

// Labels that Dynamo's operator gives the pods of a component.
constexpr const char* kDgdLabel = "nvidia.com/dynamo-graph-deployment-name";
constexpr const char* kComponentLabel = "nvidia.com/dynamo-component";

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

bool is_component(std::string_view text) {
  return !text.empty() && text.size() <= 63 && std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.';
  });
}

bool is_dgd(const ApiResource& resource) {
  return resource.group == "nvidia.com" && resource.plural == "dynamographdeployments";
}

std::uint32_t component_replicas(const Json& component) {
  // Dynamo's operator takes a missing number for 1.
  return static_cast<std::uint32_t>(
      std::clamp<std::int64_t>(json_number(component, "replicas").value_or(1), 0, INT32_MAX));
}

// Whether a manager owns the replicas of a component: of an entry of the list, of the whole list, or of the map.
bool writes_component(const Json& spec, const std::string& name, const ScaledComponent& component) {
  if (!component.index)
    return json_part(json_part(json_part(spec, "f:services"), ("f:" + name).c_str()), "f:replicas").is_object();
  const Json& list = json_part(spec, "f:components");
  if (!list.is_object()) return false;
  const std::string key = "k:" + Json{{"name", name}}.dump();
  return list.empty() || json_part(json_part(list, key.c_str()), "f:replicas").is_object();
}

void read_components(const Json& spec, ScaledObject& made) {
  std::size_t index = 0;
  if (const Json& list = json_part(spec, "components"); list.is_array())
    for (const Json& component : list) {
      if (const std::string name = json_text(component, "name"); !name.empty())
        made.components[name] = {component_replicas(component), index, {}};
      ++index;
    }
  if (const Json& services = json_part(spec, "services"); services.is_object())
    for (const auto& [name, component] : services.items())
      made.components[name] = {component_replicas(component), {}, {}};
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
  std::vector<std::string> parts = parts_of(text);
  ScaleTarget made;
  // With an odd number of parts, the last is a component.
  if (parts.size() % 2 == 1) {
    made.component = std::move(parts.back());
    parts.pop_back();
  }
  made.name = parts.empty() ? std::string{} : parts.back();
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
  const bool has_component = !made.component.empty();
  if (made.resource.plural.empty() || !is_name(made.name) ||
      (has_component && (!is_component(made.component) || !is_dgd(made.resource))))
    return core::invalid_input({}, fmt::format("\"{}\" is no object with replicas", text),
                               "name it like deployment/NAME, statefulset/NAME, leaderworkerset/NAME, "
                               "dynamographdeploymentscalingadapter/NAME, dynamographdeployment/NAME/COMPONENT or "
                               "GROUP/VERSION/PLURAL/NAME");
  if (is_dgd(made.resource) && !has_component)
    return core::invalid_input({}, fmt::format("\"{}\" has a number of replicas for each component", text),
                               fmt::format("name a component of it: {}/COMPONENT", text));
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
  const std::string text = fmt::format("{}.{} \"{}\"", target.resource.plural, target.resource.group, target.name);
  return target.component.empty() ? text : fmt::format("{} component \"{}\"", text, target.component);
}

ScaleTarget adapter_of(const ScaleTarget& component) {
  ScaleTarget made;
  made.resource = {component.resource.group, component.resource.version, "dynamographdeploymentscalingadapters"};
  made.name = component.name + "-";
  for (const unsigned char c : component.component) made.name += static_cast<char>(std::tolower(c));
  return made;
}

bool is_same(const ScaleTarget& left, const ScaleTarget& right) {
  if (left.component.empty() != right.component.empty())
    return left.component.empty() ? is_same(left, adapter_of(right)) : is_same(adapter_of(left), right);
  return left.resource.group == right.resource.group && left.resource.plural == right.resource.plural &&
         left.name == right.name && left.component == right.component;
}

std::string pod_selector(const ScaleTarget& target, const std::string& of_scale) {
  const ApiResource& resource = target.resource;
  if (resource.group == "leaderworkerset.x-k8s.io" && resource.plural == "leaderworkersets")
    return fmt::format("{}={}", kGroupSetLabel, target.name);
  if (!target.component.empty())
    return fmt::format("{}={},{}={}", kDgdLabel, target.name, kComponentLabel, target.component);
  return of_scale;
}

ScaledObject parse_scaled_object(const Json& object) {
  const Json& metadata = json_part(object, "metadata");
  ScaledObject made;
  made.version = json_text(metadata, "resourceVersion");
  made.uid = json_text(metadata, "uid");
  const auto ordinal = json_number(json_part(json_part(object, "spec"), "ordinals"), "start").value_or(0);
  made.first_ordinal = std::clamp<std::int64_t>(ordinal, 0, INT32_MAX);
  read_components(json_part(object, "spec"), made);
  made.is_observed = has_observed_spec(object);
  const Json& fields = json_part(metadata, "managedFields");
  std::vector<const Json*> managers;
  for (const Json& each : fields) managers.push_back(&each);
  std::stable_sort(managers.begin(), managers.end(), [](const Json* left, const Json* right) {
    return std::pair{json_text(*left, "time"), json_text(*left, "manager")} <
           std::pair{json_text(*right, "time"), json_text(*right, "manager")};
  });
  std::string last_time;
  for (const Json* each : managers) {
    const std::string name = json_text(*each, "manager");
    // Controllers that write a status answer to what another client has changed within the same second.
    const bool is_answer = !made.last_writer.empty() && json_text(*each, "time") == last_time &&
                           json_text(*each, "subresource") == "status";
    if (name != kFieldManager && !is_answer) {
      made.last_writer = name;
      last_time = json_text(*each, "time");
    }
    const Json& spec = json_part(json_part(*each, "fieldsV1"), "f:spec");
    if (spec.is_object() && spec.contains("f:replicas")) made.writers.push_back(name);
    for (auto& [component, state] : made.components)
      if (writes_component(spec, component, state)) state.writers.push_back(name);
  }
  made.annotations = target_annotations(object);
  return made;
}

std::optional<ApiScale> component_scale(const ScaleTarget& target, const ScaledObject& object) {
  const auto found = object.components.find(target.component);
  if (found == object.components.end()) return std::nullopt;
  return ApiScale{found->second.replicas, std::nullopt, {}, object.version};
}

ApiCall set_component_call(const ScaleTarget& target, std::string in_namespace, const ScaledObject& object,
                           std::uint32_t replicas) {
  const ScaledComponent& component = object.components.at(target.component);
  if (!component.index)
    return merge_patch_call(target.resource, std::move(in_namespace), target.name,
                            {{"metadata", {{"resourceVersion", object.version}}},
                             {"spec", {{"services", {{target.component, {{"replicas", replicas}}}}}}}});
  // JSON patch (RFC 6902), because merge patches replace whole lists.
  ApiCall call = merge_patch_call(
      target.resource, std::move(in_namespace), target.name,
      Json::array({Json{{"op", "replace"}, {"path", "/metadata/resourceVersion"}, {"value", object.version}},
                   Json{{"op", "add"},
                        {"path", fmt::format("/spec/components/{}/replicas", *component.index)},
                        {"value", replicas}}}));
  call.content_type = "application/json-patch+json";
  return call;
}

const std::vector<std::string>& writers_of(const ScaleTarget& target, const ScaledObject& object) {
  const auto found = object.components.find(target.component);
  return found == object.components.end() ? object.writers : found->second.writers;
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
