#include "admission/pressure.h"

#include <algorithm>
#include <cmath>

namespace penstock::admission {
namespace {

constexpr double kRetryAfterMaxS = 60.0;

bool fits(std::uint64_t tokens, std::uint64_t in_flight, std::uint64_t limit) {
  return in_flight <= limit && tokens <= limit - in_flight;
}

std::uint64_t tokens_share(std::uint64_t tokens, double share) {
  return share >= 1.0 ? tokens : static_cast<std::uint64_t>(share * static_cast<double>(tokens));
}

}  // namespace

PressureLimits with_headroom(const PressureLimits& limits) {
  PressureLimits less = limits;
  less.kv_reject = std::min(limits.kv_reject, limits.kv_throttle);
  less.prefill_tokens_per_replica = tokens_share(limits.prefill_tokens_per_replica, limits.throttled_share);
  return less;
}

Verdict check_saturation(const ReplicaPressure& replica, std::uint64_t prompt_tokens, const PressureLimits& limits) {
  if (replica.open_requests < replica.workers) return Verdict::kAdmit;
  const double kv_usage = replica.kv_usage.value_or(0.0);
  if (kv_usage >= limits.kv_reject) return Verdict::kReject;
  if (kv_usage + replica.kv_share > 1.0) return Verdict::kWait;
  if (replica.prefill_tokens_in_flight == 0) return Verdict::kAdmit;
  const std::uint64_t tokens_of_all = limits.prefill_tokens_per_replica * replica.workers;
  const std::uint64_t tokens_max =
      kv_usage > limits.kv_throttle ? tokens_share(tokens_of_all, limits.throttled_share) : tokens_of_all;
  return fits(prompt_tokens, replica.prefill_tokens_in_flight, tokens_max) ? Verdict::kAdmit : Verdict::kWait;
}

std::uint32_t retry_after_s(std::uint64_t waiting_tokens, double admitted_tokens_per_s) {
  if (waiting_tokens == 0) return 1;
  if (!(admitted_tokens_per_s > 0.0)) return static_cast<std::uint32_t>(kRetryAfterMaxS);
  const double seconds = std::ceil(static_cast<double>(waiting_tokens) / admitted_tokens_per_s);
  return static_cast<std::uint32_t>(std::clamp(seconds, 1.0, kRetryAfterMaxS));
}

}  // namespace penstock::admission
