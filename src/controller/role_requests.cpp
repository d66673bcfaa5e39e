#include "controller/role_requests.h"

#include <fmt/format.h>

#include <utility>

#include "net/address.h"
#include "net/fetch.h"

namespace penstock::controller {
namespace {

constexpr core::Duration kRoleTimeout = std::chrono::minutes{2};  // An engine answers once it has its role.
constexpr core::Duration kRoleRetry = std::chrono::seconds{1};
constexpr std::size_t kRolePodsMax = 1000;

}  // namespace

RoleChange role_change_of(telemetry::EngineKind kind) {
  switch (kind) {
    case telemetry::EngineKind::kSglang:
    case telemetry::EngineKind::kPenstock: return RoleChange::kByRequest;
    case telemetry::EngineKind::kVllm: return RoleChange::kByLabels;
    default: return RoleChange::kNever;
  }
}

bool RoleRequests::begins(const std::string& pod, const connect::RequestedRole& role) {
  // An engine that is forgotten is asked again, which changes nothing.
  if (pods_.size() >= kRolePodsMax) std::erase_if(pods_, [](const auto& each) { return !each.second.is_in_flight; });
  return std::exchange(pods_[pod].asked, role) != role;
}

bool RoleRequests::has(const std::string& pod, const connect::RequestedRole& role) const {
  const auto found = pods_.find(pod);
  return found != pods_.end() && found->second.has == role;
}

void RoleRequests::request(const std::string& pod, const std::string& url, telemetry::EngineKind kind,
                           const connect::RequestedRole& role, Done done) {
  Asked& asked = pods_[pod];
  if (role_change_of(kind) == RoleChange::kByLabels) asked.has = role;
  const auto parsed = net::parse_url(url);
  if (role_change_of(kind) != RoleChange::kByRequest || asked.is_in_flight || loop_.now() < asked.at || !parsed) return;
  const auto address = net::Address::parse(parsed->host, parsed->port);
  if (!address) return;
  const auto credentials = credentials_ ? credentials_(url) : nullptr;
  net::FetchRequest request = net::request_to(*parsed, *address, "/pd_role_switch", kRoleTimeout);
  request.method = "POST";
  if (credentials) request.field_lines = credentials->fields;
  request.fields.push_back({"Content-Type", "application/json"});
  request.body = fmt::format(R"({{"new_role":"{}"}})", role.role);
  asked.is_in_flight = true;
  net::fetch(client_, std::move(request),
             [this, pod, role, done = std::move(done)](const core::Result<net::FetchAnswer>& answer) {
               Asked& answered = pods_[pod];
               answered.is_in_flight = false;
               answered.at = loop_.now() + kRoleRetry;
               std::string failure;
               if (!answer)
                 failure = answer.error().message();
               else if (answer->status != 200)
                 failure = fmt::format("status {}", answer->status);
               if (failure.empty()) answered.has = role;
               const bool is_new = std::exchange(answered.failure, failure) != failure;
               if (is_new || failure.empty()) done(failure);
             });
}

}  // namespace penstock::controller
