#include "configuration/loosened_limits.h"

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

namespace penstock::configuration {
namespace {

using Process = LoosenedLimit::Process;

bool authenticates(const AccessSetup& access) {
  return !access.token_file.empty() || !access.token_env.empty() || !access.client_ca.empty();
}

const std::string& authenticated_by(const AccessSetup& access) {
  return !access.token_file.empty()  ? access.token_file
         : !access.token_env.empty() ? access.token_env
                                     : access.client_ca;
}

std::string budget_text(const std::optional<std::uint64_t>& gpus) { return gpus ? fmt::to_string(*gpus) : "none"; }

class LimitComparison {
 public:
  LimitComparison(const Configuration& in_force, const Configuration& read, options::Reading reading)
      : before_(in_force), after_(read), reading_(std::move(reading)) {}

  std::vector<LoosenedLimit> run() {
    compare_access();
    const std::vector<Configuration> before = configurations_of(before_), after = configurations_of(after_);
    for (std::size_t i = 0; before.size() == after.size() && i < after.size(); ++i) {
      std::string prefix;
      if (!after_.deployments.empty()) {
        prefix = fmt::format("deployments[{}].", i);
        reading_.set_scope(prefix.substr(0, prefix.size() - 1));
      }
      compare_pools(before[i].run.pools, after[i].run.pools, prefix);
      compare_budget(before[i], after[i], prefix);
    }
    return std::move(found_);
  }

 private:
  void compare_access() {
    const GatewaySetup &before = before_.gateway, &after = after_.gateway;
    if (!before.options.anonymous && after.options.anonymous)
      found_.push_back({Process::kGateway, "gateway.anonymous", "false", "true", reading_.given("gateway.anonymous"),
                        "write gateway.anonymous: true to admit requests without an API key"});
    if (authenticates(before.admin) && !authenticates(after.admin))
      found_.push_back({Process::kGateway, "gateway.admin_token_file", authenticated_by(before.admin), "none", false,
                        "restart to serve the admin address without authentication"});
    const auto compare_tls = [this](const char* key, const std::string& encrypted, const std::string& now) {
      if (!encrypted.empty() && now.empty())
        found_.push_back({Process::kGateway, key, encrypted, "none", false, "restart to serve plain HTTP"});
    };
    compare_tls("gateway.tls.certificate", before.tls_certificate, after.tls_certificate);
    compare_tls("gateway.admin_tls.certificate", before.admin.tls_certificate, after.admin.tls_certificate);
  }

  void compare_pools(const std::vector<simulation::PoolSpec>& before, const std::vector<simulation::PoolSpec>& after,
                     const std::string& prefix) {
    for (std::size_t i = 0; before.size() == after.size() && i < after.size(); ++i) {
      const std::uint32_t was = before[i].max_replicas, is = after[i].max_replicas;
      if (is <= was) continue;
      const std::string of_pool = fmt::format("pools[{}].max_replicas", i);
      const bool has_list = reading_.given("pools[0]");
      found_.push_back({Process::kPlanner, prefix + (has_list ? of_pool : "max_replicas"), fmt::to_string(was),
                        fmt::to_string(is), reading_.given(of_pool) || reading_.given("max_replicas"),
                        fmt::format("write max_replicas: {} to allow them", is)});
    }
  }

  void compare_budget(const Configuration& before, const Configuration& after, const std::string& prefix) {
    const auto &was = before.planner.options.guardrails.gpu_budget, &is = after.planner.options.guardrails.gpu_budget;
    if (!was || (is && *is <= *was)) return;
    const std::string key = "planner.gpu_budget";
    found_.push_back({Process::kPlanner, prefix + key, budget_text(was), budget_text(is), reading_.given(key),
                      "write planner.gpu_budget: 0 to remove the limit"});
  }

  const Configuration &before_, &after_;
  options::Reading reading_;
  std::vector<LoosenedLimit> found_;
};

}  // namespace

std::vector<LoosenedLimit> loosened_limits(const Configuration& in_force, const Configuration& read,
                                           const options::Reading& reading) {
  return LimitComparison{in_force, read, reading}.run();
}

options::Problems check_loosened(const std::vector<LoosenedLimit>& limits) {
  options::Problems problems;
  for (const LoosenedLimit& limit : limits)
    if (!limit.is_given)
      problems.push_back(
          {core::ErrorCode::kInvalidInput, limit.key,
           fmt::format("is not given, so that a reload would change it from {} to {}", limit.before, limit.after),
           limit.hint});
  return problems;
}

}  // namespace penstock::configuration
