// What one replica gives at a fixed number of requests in flight, by formula instead of simulation.
#pragma once

#include <cstdint>

#include "engine/roofline.h"

namespace penstock::fidelity {

struct ServingPoint {
  std::uint32_t input_tokens = 0, output_tokens = 0;  // of every request, ≥ 1
  std::uint32_t concurrency = 0;                      // requests in flight: each that ends is followed at once; ≥ 1
};

struct ServingEstimate {
  double ttft_ms = 0.0;
  double tpot_ms = 0.0;              // mean over a request's tokens after the first
  double output_tokens_per_s = 0.0;  // concurrency·output / (ttft + output·tpot)
  double running = 0.0;              // requests that run at once, the rest waits for KV blocks
};

// What a client sees before its first token beyond the steps that compute its prompt, in the closed loops of published
// measurements: fitted to the TTFT of dense models in the declared half (calibration.h).
struct ClosedLoop {
  double fixed_ms = 0.0;      // tokenisation, HTTP, the first token's way back
  double burst_share = 0.0;   // of the others' prompts that one waits for: all clients start at once, then spread
  double steps_waited = 0.0;  // until the scheduler looks again
};
[[nodiscard]] ClosedLoop closed_loop_of(engine::Backend backend);

// Aggregated serving. With b the sequences that run, min(concurrency, KV capacity / (input + output/2)), d the decode
// step of b sequences at mean context input + output/2, and p what a whole prompt adds to a step:
//   tpot = d + (b − 1)/output · p       while a request makes its tokens, every other one is replaced once
//   ttft = fixed + p + steps·d + burst·(b − 1)·p + (concurrency/b − 1)·output·tpot
// with the closed_loop_of() the replica's backend.
[[nodiscard]] ServingEstimate aggregated_serving(const engine::Roofline& replica, const ServingPoint& point);

// The decode side alone, whose prompts come computed: tpot = d. ttft_ms is 0, it belongs to the other side.
[[nodiscard]] ServingEstimate decode_serving(const engine::Roofline& replica, const ServingPoint& point);

}  // namespace penstock::fidelity
