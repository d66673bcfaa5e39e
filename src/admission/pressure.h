// How full the engines are, and what that means for who is let in.
#pragma once

#include <cstdint>
#include <optional>

#include "core/time.h"

namespace penstock::admission {

struct PressureLimits {
  double kv_throttle = 0.85;                          // KV usage above which prompts are let in at a slower pace …
  double kv_reject = 0.90;                            // … and from which they wait or are refused
  std::uint64_t prefill_tokens_per_replica = 32'768;  // uncached prompt tokens under way; more wait
  std::uint64_t prefill_tokens_throttled = 8'192;     // the same while KV is above kv_throttle
  std::uint64_t clamp_above_queue_tokens = 131'072;   // waiting prompt tokens above which max_tokens is clamped …
  std::uint32_t clamp_max_tokens = 512;               // … to this
};

// What is known of one replica that could take the request.
struct ReplicaPressure {
  std::optional<double> kv_usage;  // 0..1; none: not heard of lately, which lets in by tokens in flight alone
  std::uint64_t prefill_tokens_in_flight = 0;
  std::uint32_t open_requests = 0;
};

enum class Verdict : std::uint8_t {
  kAdmit,
  kWait,    // too many prompt tokens under way, or KV above the throttle
  kReject,  // KV above the limit: wait if the class may, else refuse
};

// May a prompt of so many uncached tokens go to this replica? One request is always let in to a replica that has none, so
// that a prompt longer than the limit is served at all.
[[nodiscard]] Verdict judge(const ReplicaPressure& replica, std::uint64_t prompt_tokens, const PressureLimits& limits);

// What max_tokens becomes; none: it stays as it is.
[[nodiscard]] std::optional<std::uint32_t> clamped_max_tokens(std::optional<std::uint32_t> max_tokens,
                                                              std::uint64_t waiting_prompt_tokens,
                                                              const PressureLimits& limits);

// Whole seconds, at least 1 and at most 60, after which a client may hope: what waits ahead over the rate at which it is
// let in.
[[nodiscard]] std::uint32_t retry_after_s(std::uint64_t waiting_tokens, double let_in_tokens_per_s);

}  // namespace penstock::admission
