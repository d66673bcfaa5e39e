#include "connect/kubernetes/api_call.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <nlohmann/json.hpp>
#include <utility>

#include "connect/kubernetes/json_values.h"
#include "core/enum_names.h"
#include "net/http.h"

namespace penstock::connect {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kShownBytes = 400;
constexpr std::int64_t kRetryAfterMaxS = 300;

// One line of a text from outside.
std::string shown(std::string_view text) {
  std::string line{text.substr(0, kShownBytes)};
  for (char& c : line)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
  return line;
}

ApiReason reason_of(std::string_view name, std::int64_t status) {
  constexpr std::array<std::pair<std::string_view, ApiReason>, 12> kNames{{
      {"Unauthorized", ApiReason::kUnauthorized},
      {"Forbidden", ApiReason::kForbidden},
      {"NotFound", ApiReason::kNotFound},
      {"Conflict", ApiReason::kConflict},
      {"AlreadyExists", ApiReason::kAlreadyExists},
      {"Expired", ApiReason::kExpired},
      {"Gone", ApiReason::kExpired},
      {"TooManyRequests", ApiReason::kTooManyRequests},
      {"ServerTimeout", ApiReason::kServerError},
      {"Timeout", ApiReason::kServerError},
      {"InternalError", ApiReason::kServerError},
      {"ServiceUnavailable", ApiReason::kServerError},
  }};
  for (const auto& [known, reason] : kNames)
    if (known == name) return reason;
  switch (status) {
    case 401: return ApiReason::kUnauthorized;
    case 403: return ApiReason::kForbidden;
    case 404: return ApiReason::kNotFound;
    case 409: return ApiReason::kConflict;
    case 410: return ApiReason::kExpired;
    case 429: return ApiReason::kTooManyRequests;
    default: return status >= 500 ? ApiReason::kServerError : ApiReason::kRejected;
  }
}

std::string resource_of(const ApiCall& call) {
  return call.subresource.empty() ? call.resource.plural : call.resource.plural + "/" + call.subresource;
}

std::string hint_for(const ApiCall& call, ApiReason reason) {
  if (reason == ApiReason::kForbidden)
    return fmt::format("add to the {}: {{apiGroups: [\"{}\"], resources: [\"{}\"], verbs: [\"{}\"]}}",
                       call.in_namespace.empty() ? "ClusterRole" : "Role", call.resource.group, resource_of(call),
                       call.verb);
  if (reason == ApiReason::kUnauthorized) return "check the token or the client certificate; it may have expired";
  if (reason == ApiReason::kNotFound && call.verb == "get" && call.subresource == "scale")
    return fmt::format("the object does not exist, or {}.{} have no /scale", call.resource.plural, call.resource.group);
  if (reason == ApiReason::kNotFound && (call.verb == "list" || call.verb == "watch") && !call.resource.group.empty())
    return fmt::format("the cluster does not serve {}.{} {}; install its definition (CRD), or name another version",
                       call.resource.plural, call.resource.group, call.resource.version);
  return {};
}

std::optional<core::Duration> seconds_of(std::string_view text) {
  std::int64_t seconds = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (error != std::errc{} || end != text.data() + text.size() || seconds < 0) return std::nullopt;
  return std::chrono::seconds{std::min(seconds, kRetryAfterMaxS)};
}

ApiError error_of(const ApiCall& call, std::int64_t status, const Json& body) {
  const std::string name = json_text(body, "reason"), message = json_text(body, "message");
  const ApiReason reason = reason_of(name, status);
  std::string what = name.empty() ? fmt::format("status {}", status) : fmt::format("{} ({})", shown(name), status);
  if (!message.empty()) what += ": " + shown(message);
  ApiError error = api_error(call, reason, std::move(what), hint_for(call, reason));
  if (const auto wait = json_number(json_part(body, "details"), "retryAfterSeconds"); wait && *wait > 0)
    error.retry_after = std::chrono::seconds{std::min(*wait, kRetryAfterMaxS)};
  return error;
}

ApiCall write_call(ApiCall call, std::string content_type, const Json& body) {
  call.query = fmt::format("fieldManager={}", kFieldManager);
  call.content_type = std::move(content_type);
  call.body = body.dump(-1, ' ', false, Json::error_handler_t::replace);
  return call;
}

}  // namespace

const char* to_string(ApiReason reason) {
  return core::name_of<ApiReason::kRejected>(
      reason, {"unreachable", "unauthorized", "forbidden", "not found", "conflict", "already exists", "expired",
               "too many requests", "server error", "malformed", "rejected"});
}

std::string target_of(const ApiCall& call) {
  const ApiResource& resource = call.resource;
  std::string target = resource.group.empty() ? "/api/" : "/apis/" + resource.group + "/";
  target += resource.version;
  if (!call.in_namespace.empty()) target += "/namespaces/" + net::encode_query(call.in_namespace);
  target += "/" + resource.plural;
  if (!call.name.empty()) target += "/" + net::encode_query(call.name);
  if (!call.subresource.empty()) target += "/" + call.subresource;
  if (!call.query.empty()) target += "?" + call.query;
  return target;
}

std::string_view method_of(const ApiCall& call) {
  if (call.verb == "create") return "POST";
  if (call.verb == "update") return "PUT";
  if (call.verb == "patch") return "PATCH";
  return call.verb == "delete" ? "DELETE" : "GET";
}

std::string description_of(const ApiCall& call) {
  std::string text = call.verb + " " + resource_of(call);
  if (!call.name.empty()) text += fmt::format(" \"{}\"", call.name);
  if (!call.in_namespace.empty()) text += fmt::format(" in namespace \"{}\"", call.in_namespace);
  return text;
}

ApiCall get_call(const ApiResource& resource, std::string in_namespace, std::string name) {
  return {"get", resource, std::move(in_namespace), std::move(name)};
}

ApiCall create_call(const ApiResource& resource, std::string in_namespace, const Json& object) {
  return write_call({"create", resource, std::move(in_namespace)}, "application/json", object);
}

ApiCall update_call(const ApiResource& resource, std::string in_namespace, std::string name, const Json& object) {
  return write_call({"update", resource, std::move(in_namespace), std::move(name)}, "application/json", object);
}

ApiCall merge_patch_call(const ApiResource& resource, std::string in_namespace, std::string name, const Json& patch) {
  return write_call({"patch", resource, std::move(in_namespace), std::move(name)}, "application/merge-patch+json",
                    patch);
}

ApiCall apply_call(const ApiResource& resource, std::string in_namespace, std::string name, const Json& object,
                   bool force) {
  // JSON is YAML.
  ApiCall call =
      write_call({"patch", resource, std::move(in_namespace), std::move(name)}, "application/apply-patch+yaml", object);
  if (force) call.query += "&force=true";
  return call;
}

ApiError api_error(const ApiCall& call, ApiReason reason, std::string what, std::string hint) {
  const bool is_environment = reason == ApiReason::kUnreachable || reason == ApiReason::kServerError ||
                              reason == ApiReason::kTooManyRequests || reason == ApiReason::kMalformed;
  return {{is_environment ? core::ErrorCode::kEnvironment : core::ErrorCode::kInvalidInput, description_of(call),
           std::move(what), std::move(hint)},
          reason};
}

ApiError api_error_of(const ApiCall& call, int status, std::string_view body, std::string_view retry_after) {
  ApiError error = error_of(call, status, Json::parse(body, nullptr, false));
  if (const auto wait = seconds_of(retry_after)) error.retry_after = wait;
  return error;
}

ApiError api_error_of(const ApiCall& call, const Json& status) {
  return error_of(call, json_number(status, "code").value_or(500), status);
}

tl::expected<ApiScale, ApiError> parse_scale(const ApiCall& call, const Json& scale) {
  const auto malformed = [&](const char* what) {
    return tl::make_unexpected(api_error(call, ApiReason::kMalformed, what));
  };
  if (json_text(scale, "kind") != "Scale") return malformed("the answer is not a Scale");
  ApiScale made;
  made.resource_version = json_text(json_part(scale, "metadata"), "resourceVersion");
  if (made.resource_version.empty()) return malformed("the scale has no resourceVersion");
  // A field with the value 0 may be left out.
  const auto replicas = json_part(scale, "spec").is_object() && !json_part(scale, "spec").contains("replicas")
                            ? std::optional<std::int64_t>{0}
                            : json_number(json_part(scale, "spec"), "replicas");
  if (!replicas || *replicas < 0 || *replicas > INT32_MAX)
    return malformed("spec.replicas is not a number of replicas");
  made.replicas = static_cast<std::uint32_t>(*replicas);
  if (const auto observed = json_number(json_part(scale, "status"), "replicas");
      observed && *observed >= 0 && *observed <= INT32_MAX)
    made.observed = static_cast<std::uint32_t>(*observed);
  made.selector = json_text(json_part(scale, "status"), "selector");
  return made;
}

ApiCall get_scale_call(const ApiResource& resource, std::string in_namespace, std::string name) {
  ApiCall call = get_call(resource, std::move(in_namespace), std::move(name));
  call.subresource = "scale";
  return call;
}

ApiCall set_scale_call(const ApiResource& resource, std::string in_namespace, std::string name, std::uint32_t replicas,
                       const std::string& resource_version) {
  const Json patch{{"metadata", {{"resourceVersion", resource_version}}}, {"spec", {{"replicas", replicas}}}};
  ApiCall call = merge_patch_call(resource, std::move(in_namespace), std::move(name), patch);
  call.subresource = "scale";
  return call;
}

}  // namespace penstock::connect
