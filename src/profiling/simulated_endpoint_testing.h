// An endpoint for tests under simulated time: a step-time model behind continuous batching with chunked prefill.
#pragma once

#include <algorithm>
#include <vector>

#include "core/random.h"
#include "core/time.h"
#include "engine/step_time.h"
#include "profiling/profiler.h"

namespace penstock::profiling {

struct SimulatedEndpoint {
  const engine::StepTimeModel& model;
  std::uint32_t sequences_max = 256, chunk_tokens = 2048;
  double noise = 0.0;  // Standard deviation of each step, as a share.
  core::RandomStream random{1};
  std::uint64_t requests = 0;
  core::Duration clock{};

  // Runs the burst until all its requests have ended.
  [[nodiscard]] std::vector<TimedAnswer> run(const Burst& burst) {
    const core::Duration sent = clock;
    std::vector<TimedAnswer> answers(burst.requests);
    std::vector<std::uint32_t> computed(burst.requests, 0);
    for (TimedAnswer& answer : answers) {
      answer.sent = sent;
      answer.prompt_tokens = burst.prompt_words + 7;  // Of a chat template.
      answer.output_tokens = burst.output_tokens;
    }
    requests += burst.requests;
    for (;;) {
      engine::StepShape shape;
      std::vector<std::size_t> generating;
      std::uint32_t running = 0, budget = chunk_tokens;
      for (std::size_t i = 0; i < answers.size() && running < sequences_max; ++i) {
        TimedAnswer& answer = answers[i];
        if (answer.token_times.size() >= answer.output_tokens) continue;
        ++running;
        const std::uint32_t left = answer.prompt_tokens - computed[i];
        const std::uint32_t chunk = std::min(left, budget);
        budget -= chunk;
        computed[i] += chunk;
        shape.prefill_new_tokens += chunk;
        if (chunk < left) continue;
        generating.push_back(i);
        if (left > 0) continue;  // The first token comes from the prompt's step.
        ++shape.decode_sequences;
        shape.decode_context_tokens += answer.prompt_tokens + answer.token_times.size();
      }
      if (running == 0) return answers;
      shape.active_kv_tokens = shape.decode_context_tokens;
      shape.total_kv_tokens = 1'000'000;
      clock += core::from_milliseconds(core::to_milliseconds(model.step(shape)) *
                                       std::max(0.2, 1.0 + noise * random.normal()));
      for (const std::size_t i : generating) answers[i].token_times.push_back(clock);
    }
  }
};

}  // namespace penstock::profiling
