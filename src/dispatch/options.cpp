#include "dispatch/options.h"

#include <algorithm>
#include <limits>

namespace penstock::dispatch {

DispatchOptions unlimited_options() {
  constexpr core::Duration kForever = std::chrono::hours{24 * 365 * 100};
  constexpr std::uint32_t kAll = std::numeric_limits<std::uint32_t>::max();
  constexpr std::uint64_t kAllTokens = std::numeric_limits<std::uint64_t>::max();
  constexpr double kNever = std::numeric_limits<double>::infinity();
  DispatchOptions options;
  options.tenants.emplace_back().name = "all";
  options.context_tokens = kAll;
  options.interactive.queue_time = options.batch.queue_time = kForever;
  options.queue = {kAll, kAllTokens, kAll};
  options.pressure = {kNever, kNever, kAllTokens, 1.0};
  options.interactive.overload = options.batch.overload = admission::OverloadAction::kQueue;
  options.retries = kAll;
  options.retry_share = kNever;
  options.circuit_breaker.failures = CircuitBreakerOptions::kNever;
  options.first_byte_timeout = options.stream_idle_timeout = options.unresponsive_idle_timeout = core::Duration{};
  options.traffic_log = options.latency_meters = false;
  return options;
}

TokenCaps tighter(const TokenCaps& one, const TokenCaps& other) {
  const auto smaller = [](std::uint32_t a, std::uint32_t b) {
    return a == 0 || b == 0 ? std::max(a, b) : std::min(a, b);
  };
  return {smaller(one.prompt_tokens, other.prompt_tokens), smaller(one.completion_tokens, other.completion_tokens)};
}

const Model* model_of(const DispatchOptions& options, std::string_view name) {
  const auto found = std::find_if(options.models.begin(), options.models.end(),
                                  [&](const Model& model) { return model.name == name; });
  return found == options.models.end() ? nullptr : &*found;
}

bool may_use(const Tenant& tenant, std::string_view model) {
  return tenant.models.empty() || std::find(tenant.models.begin(), tenant.models.end(), model) != tenant.models.end();
}

}  // namespace penstock::dispatch
