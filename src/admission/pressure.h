// Saturation of the replicas and its effect on admission.
#pragma once

#include <cstdint>
#include <optional>

#include "core/time.h"

namespace penstock::admission {

struct PressureLimits {
  double kv_throttle = 0.85;  // KV usage above which only throttled_share of the prompt tokens is admitted.
  double kv_reject = 0.90;    // KV usage above which requests wait or are refused.
  // Maximum uncached prompt tokens in flight on one worker of a replica; further requests wait.
  std::uint64_t prefill_tokens_per_replica = 32'768;
  double throttled_share = 0.25;  // Share of these tokens while KV usage is above kv_throttle.
};

// The limits for requests that leave room for others: none is sent above kv_throttle, and the throttled share of the
// prompt tokens always applies.
[[nodiscard]] PressureLimits with_headroom(const PressureLimits& limits);

// State of one replica that could take the request.
struct ReplicaPressure {
  // Expected usage with all that was sent there, from 0. Empty without a recent report; tokens in flight then decide
  // alone.
  std::optional<double> kv_usage;
  std::uint64_t prefill_tokens_in_flight = 0;
  std::uint32_t open_requests = 0;
  std::uint32_t workers = 1;  // Engines behind the replica's address, at least 1.
  double kv_share = 0.0;      // Share of the KV cache that the request would add; 0 if it is unknown.
};

enum class Verdict : std::uint8_t {
  kAdmit,
  kWait,    // Too many prompt tokens are in flight, KV usage is above the throttle, or the request does not fit.
  kReject,  // KV usage is above the limit: the request waits if its class may, otherwise it is refused.
};

// Checks whether a prompt with `prompt_tokens` uncached tokens may go to the replica. Limits hold for each of its
// workers. An idle worker always admits one request, so that prompts longer than the limit are served, too.
[[nodiscard]] Verdict check_saturation(const ReplicaPressure& replica, std::uint64_t prompt_tokens,
                                       const PressureLimits& limits);

// Returns the seconds after which a client may retry, 1 to 60: queued tokens divided by the rate of admission.
[[nodiscard]] std::uint32_t retry_after_s(std::uint64_t waiting_tokens, double admitted_tokens_per_s);

}  // namespace penstock::admission
