// A Lease of coordination.k8s.io/v1, which one of several planners holds.
// Source: https://kubernetes.io/docs/reference/kubernetes-api/cluster-resources/lease-v1/
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "connect/kubernetes/api_call.h"
#include "core/result.h"
#include "core/time.h"

namespace penstock::connect {

inline const ApiResource kLeases{"coordination.k8s.io", "v1", "leases"};

inline constexpr const char* kLeaseNote = "penstock/targets";
inline constexpr std::size_t kLeaseNoteBytesMax = 64 * 1024;  // A longer one is as none.

struct Lease {
  std::string holder;                           // Identity; empty: no planner holds it.
  std::optional<core::Duration> duration{};     // That the holder has promised to respect.
  std::string acquired_time{}, renewed_time{};  // RFC 3339 with microseconds. For people; nothing is judged by them.
  std::int64_t transitions = 0;
  std::string resource_version{}, uid{};  // Of the object that was read.
  std::string note{};                     // Of its holder for the others: the annotation kLeaseNote.
};

[[nodiscard]] core::Result<Lease> parse_lease(const nlohmann::json& object);
// Creates the object if the Lease has no resourceVersion. Otherwise it replaces exactly that version.
[[nodiscard]] ApiCall write_lease_call(const std::string& in_namespace, const std::string& name, const Lease& lease);

// An object that an option names: NAMESPACE/NAME.
struct ObjectName {
  std::string in_namespace, name;
  bool operator==(const ObjectName&) const = default;
};
// Both must be names that Kubernetes accepts.
[[nodiscard]] core::Result<ObjectName> parse_object_name(std::string_view text);

}  // namespace penstock::connect
