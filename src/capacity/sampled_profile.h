// Samples any step-time model into a profile of points, which can be stored, read and compared.
#pragma once

#include <string>
#include <string_view>

#include "capacity/token_formula.h"
#include "engine/profile.h"
#include "engine/step_time.h"

namespace penstock::capacity {

// Samples prompts of 16 to 131,072 tokens and decoding sequences of 64 to 131,072, both in steps of √2, as far as they
// fit the KV cache, and batch sizes in steps of √2 up to 1.5 times the limit. A table of the profile reproduces the
// model's step times if the times of prompts and decoding add up in the model; docs/capacity.md lists the errors.
//
// A prompt's time is the time that it adds to a step that decodes one sequence of its length, so that the table, which
// adds both, reproduces the time of a single prompt.
[[nodiscard]] engine::EngineProfile sample_profile(const engine::StepTimeModel& model, const EngineLimits& limits);

// The same within the range in which a model was measured. `sequences_max` is the most sequences at once.
struct SampleRange {
  double shortest_prompt = 16.0, longest_prompt = 131'072.0;
  double shortest_context = 64.0, longest_context = 131'072.0;
  double sequences_max = 0.0;
};
[[nodiscard]] engine::EngineProfile sample_profile(const engine::StepTimeModel& model, const EngineLimits& limits,
                                                   const SampleRange& range);

// Uses the fields that engine::read_profile() reads, plus "engine" as a description. Ends with a newline.
[[nodiscard]] std::string profile_json(const engine::EngineProfile& profile, std::string_view engine);

// TTFT of a prompt on an idle engine, computed in chunks of at most max_batched_tokens.
[[nodiscard]] double lone_ttft_ms(const engine::StepTimeModel& model, const EngineLimits& limits,
                                  std::uint32_t input_tokens);

// Time of a step that decodes `sequences` sequences of equal length.
[[nodiscard]] double decode_step_ms(const engine::StepTimeModel& model, const EngineLimits& limits,
                                    std::uint32_t sequences, std::uint32_t context_tokens);

}  // namespace penstock::capacity
