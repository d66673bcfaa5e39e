// Closed-form performance of one replica at a fixed number of requests in flight.
#pragma once

#include <cstdint>

#include "engine/roofline.h"

namespace penstock::fidelity {

// How a measurement's requests were made, which decides TTFT.
enum class LoadTest : std::uint8_t {
  kMixedLengths,  // From 80 to 100 % of the stated lengths, as InferenceMAX makes them.
  kEqualLengths,  // Requests that started together end together and are replaced together.
};

struct ServingPoint {
  std::uint32_t input_tokens = 0, output_tokens = 0;  // Lengths of every request, at least 1.
  std::uint32_t concurrency = 0;  // Requests in flight, at least 1: each request that ends is replaced at once.
  LoadTest load_test = LoadTest::kMixedLengths;
};

struct ServingEstimate {
  double ttft_ms = 0.0;
  double tpot_ms = 0.0;              // Mean over a request's tokens after the first.
  double output_tokens_per_s = 0.0;  // concurrency·output / (ttft + output·tpot).
  double running = 0.0;              // Requests that run at the same time; the others wait for KV blocks.
};

// TTFT in the closed loops of published measurements, fitted to the calibration half (calibration.h). These figures
// describe load generators and their number of requests as much as engines.
struct ClosedLoop {
  double fixed_ms = 0.0;      // Tokenisation, HTTP, and the transfer of the first token.
  double prompts = 1.0;       // Prompts that are computed until a request's own is, without a burst.
  double steps_waited = 0.0;  // Decode steps until the scheduler runs again.
  // Share of the other prompts that a request waits for, because all clients start at the same time. It is 0.05 if
  // the mean is over ten requests of each client.
  double burst_share = 0.0;
};
[[nodiscard]] ClosedLoop closed_loop_of(engine::Backend backend, LoadTest load_test, bool mixture);

// KV capacity that the calibration assumes: 0.9 of the memory, less 2 GB a GPU and the weights. The measurements do not
// state theirs, and the efficiencies were fitted with this one; engine/kv_memory.h has the law for users.
[[nodiscard]] double calibration_kv_tokens(const engine::RooflineSpec& spec);

// Aggregated serving. Let b be the running sequences, min(concurrency, KV capacity / (input + output/2)), d the decode
// step of b sequences at mean context input + output/2, and p the time that a whole prompt adds to a step:
//   tpot = d + (b − 1)/output · p       while a request decodes, every other one is replaced once
//   ttft = fixed + (prompts + burst·(b − 1))·p + steps·d + (concurrency/b − 1)·output·tpot
// with closed_loop_of() the replica's backend and the load test.
[[nodiscard]] ServingEstimate aggregated_serving(const engine::Roofline& replica, const ServingPoint& point);

// The decode side of a disaggregated deployment: tpot = d, and ttft_ms is 0, because the prefill side determines it.
[[nodiscard]] ServingEstimate decode_serving(const engine::Roofline& replica, const ServingPoint& point);

}  // namespace penstock::fidelity
