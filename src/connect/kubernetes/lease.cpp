#include "connect/kubernetes/lease.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <utility>

#include "connect/kubernetes/json_values.h"

namespace penstock::connect {
namespace {

using Json = nlohmann::json;

constexpr std::int64_t kDurationMaxS = INT32_MAX;

// A subdomain name of RFC 1123.
bool is_object_name(std::string_view name, std::size_t bytes_max) {
  const auto is_inner = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); };
  return !name.empty() && name.size() <= bytes_max && is_inner(name.front()) && is_inner(name.back()) &&
         std::all_of(name.begin(), name.end(), [&](char c) { return is_inner(c) || c == '-' || c == '.'; });
}

}  // namespace

core::Result<Lease> parse_lease(const Json& object) {
  const auto malformed = [](const char* what) { return core::invalid_input("lease", what); };
  if (json_text(object, "kind") != "Lease") return malformed("the object is not a Lease");
  const Json& spec = json_part(object, "spec");
  Lease made;
  made.resource_version = json_text(json_part(object, "metadata"), "resourceVersion");
  if (made.resource_version.empty()) return malformed("has no resourceVersion");
  made.uid = json_text(json_part(object, "metadata"), "uid");
  made.note = json_text(json_part(json_part(object, "metadata"), "annotations"), kLeaseNote);
  if (made.note.size() > kLeaseNoteBytesMax) made.note.clear();
  made.holder = json_text(spec, "holderIdentity");
  made.acquired_time = json_text(spec, "acquireTime");
  made.renewed_time = json_text(spec, "renewTime");
  made.transitions = std::clamp<std::int64_t>(json_number(spec, "leaseTransitions").value_or(0), 0, INT32_MAX);
  if (const auto seconds = json_number(spec, "leaseDurationSeconds"); seconds && *seconds > 0)
    made.duration = std::chrono::seconds{std::min(*seconds, kDurationMaxS)};
  return made;
}

ApiCall write_lease_call(const std::string& in_namespace, const std::string& name, const Lease& lease) {
  const bool is_new = lease.resource_version.empty();
  Json object{{"apiVersion", "coordination.k8s.io/v1"},
              {"kind", "Lease"},
              {"metadata", {{"name", name}, {"namespace", in_namespace}}},
              {"spec", {{"leaseTransitions", lease.transitions}}}};
  if (!is_new) object["metadata"]["resourceVersion"] = lease.resource_version;
  if (!lease.note.empty() && lease.note.size() <= kLeaseNoteBytesMax)
    object["metadata"]["annotations"][kLeaseNote] = lease.note;
  Json& spec = object["spec"];
  if (!lease.holder.empty()) spec["holderIdentity"] = lease.holder;
  if (lease.duration) spec["leaseDurationSeconds"] = std::chrono::ceil<std::chrono::seconds>(*lease.duration).count();
  if (!lease.acquired_time.empty()) spec["acquireTime"] = lease.acquired_time;
  if (!lease.renewed_time.empty()) spec["renewTime"] = lease.renewed_time;
  ApiCall call = is_new ? create_call(kLeases, in_namespace, object) : update_call(kLeases, in_namespace, name, object);
  call.is_retried = false;
  return call;
}

core::Result<ObjectName> parse_object_name(std::string_view text) {
  const std::size_t slash = text.find('/');
  ObjectName made{std::string{text.substr(0, slash)},
                  slash == std::string_view::npos ? std::string{} : std::string{text.substr(slash + 1)}};
  if (!is_object_name(made.in_namespace, 63) || made.in_namespace.find('.') != std::string::npos ||
      !is_object_name(made.name, 253))
    return core::invalid_input({}, fmt::format("must be NAMESPACE/NAME in lower case, is \"{}\"", text.substr(0, 300)));
  return made;
}

}  // namespace penstock::connect
