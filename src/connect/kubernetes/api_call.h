// Requests to the API server, and its errors, as values.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <tl/expected.hpp>

#include "core/result.h"
#include "core/time.h"

namespace penstock::connect {

// Name under which Penstock's writes are recorded in managedFields.
inline constexpr std::string_view kFieldManager = "penstock";

struct ApiResource {
  std::string group, version, plural;  // "apps", "v1", "deployments"; the core group is "".
};
inline const ApiResource kPods{"", "v1", "pods"}, kConfigMaps{"", "v1", "configmaps"},
    kDeployments{"apps", "v1", "deployments"};

struct ApiCall {
  std::string verb;  // As in a Role: get, list, watch, create, update, patch, delete.
  ApiResource resource;
  std::string in_namespace{}, name{}, subresource{};  // Empty: of the cluster, all objects, the object itself.
  std::string query{};                                // Encoded, without '?'.
  std::string content_type{}, body{};
  bool is_retried = true;  // The client repeats it where that is safe; see KubernetesClient.
};

[[nodiscard]] std::string target_of(const ApiCall& call);  // Path and query.
[[nodiscard]] std::string_view method_of(const ApiCall& call);
[[nodiscard]] std::string description_of(const ApiCall& call);  // patch deployments/scale "d" in namespace "prod"

[[nodiscard]] ApiCall get_call(const ApiResource& resource, std::string in_namespace, std::string name);
[[nodiscard]] ApiCall create_call(const ApiResource& resource, std::string in_namespace, const nlohmann::json& object);
// Replaces the whole object; fails with kConflict unless it is at the resourceVersion of `object`.
[[nodiscard]] ApiCall update_call(const ApiResource& resource, std::string in_namespace, std::string name,
                                  const nlohmann::json& object);
// JSON merge patch (RFC 7386).
[[nodiscard]] ApiCall merge_patch_call(const ApiResource& resource, std::string in_namespace, std::string name,
                                       const nlohmann::json& patch);
// Server-side apply of a whole intent. Fields that another manager owns are a conflict, unless `force` takes them over.
[[nodiscard]] ApiCall apply_call(const ApiResource& resource, std::string in_namespace, std::string name,
                                 const nlohmann::json& object, bool force);

enum class ApiReason : std::uint8_t {
  kUnreachable,  // No answer: no connection, TLS, a time limit, a cut answer.
  kUnauthorized,
  kForbidden,
  kNotFound,
  kConflict,  // The resourceVersion is not the newest, or another manager owns a field.
  kAlreadyExists,
  kExpired,  // The resourceVersion, or the continuation of a list, is too old.
  kTooManyRequests,
  kServerError,
  kMalformed,  // The answer is not what the API promises.
  kRejected,   // Another error of the request.
};
[[nodiscard]] const char* to_string(ApiReason reason);

// `where` has verb, resource, name and namespace; `what` has the server's reason and message.
struct ApiError : core::Error {
  ApiReason reason = ApiReason::kRejected;
  std::optional<core::Duration> retry_after{};
};

// The object that the server returned.
using ApiAnswer = tl::expected<nlohmann::json, ApiError>;

[[nodiscard]] ApiError api_error(const ApiCall& call, ApiReason reason, std::string what, std::string hint = {});
// Reads an answer that is not a success: a Status, or anything else that proxies send. `retry_after` is the field.
[[nodiscard]] ApiError api_error_of(const ApiCall& call, int status, std::string_view body,
                                    std::string_view retry_after = {});
// Reads a Status within a watch.
[[nodiscard]] ApiError api_error_of(const ApiCall& call, const nlohmann::json& status);

// The scale of a Deployment or of any other resource with this subresource (autoscaling/v1).
struct ApiScale {
  std::uint32_t replicas = 0;             // Asked for.
  std::optional<std::uint32_t> observed;  // That exist.
  std::string selector;                   // Of the pods, as a label selector; empty if the resource has none.
  std::string resource_version;
};
[[nodiscard]] tl::expected<ApiScale, ApiError> parse_scale(const ApiCall& call, const nlohmann::json& scale);
[[nodiscard]] ApiCall get_scale_call(const ApiResource& resource, std::string in_namespace, std::string name);
// Fails with kConflict if anything about the object was changed after `resource_version`.
[[nodiscard]] ApiCall set_scale_call(const ApiResource& resource, std::string in_namespace, std::string name,
                                     std::uint32_t replicas, const std::string& resource_version);

}  // namespace penstock::connect
