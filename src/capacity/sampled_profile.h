// Any step-time model as a profile of measured points, which can be kept, read and compared.
#pragma once

#include <string>
#include <string_view>

#include "capacity/token_formula.h"
#include "engine/profile.h"
#include "engine/step_time.h"

namespace penstock::capacity {

// Prompts of 16 to 131,072 tokens and decoding sequences of 64 to 131,072, both in steps of √2, as far as the KV cache
// holds them; sequences at once in steps of √2 to one and a half times the limit. Read back as a table, a step takes as
// long as in the model where the model's times for prompts and for decoding add up; docs/capacity.md has the errors.
//
// A prompt's time is what it adds to a step that decodes one sequence of its length, so that the table, which adds both,
// gives the lone prompt's true time.
[[nodiscard]] engine::EngineProfile sample_profile(const engine::StepTimeModel& model, const EngineLimits& limits);

// In the fields that engine::read_profile() reads, with "engine" for people. Ends with a newline.
[[nodiscard]] std::string profile_json(const engine::EngineProfile& profile, std::string_view engine);

// Until the first token of a prompt that has the engine to itself, cut into chunks of at most max_batched_tokens.
[[nodiscard]] double lone_ttft_ms(const engine::StepTimeModel& model, const EngineLimits& limits,
                                  std::uint32_t input_tokens);

// A step of so many sequences of one length.
[[nodiscard]] double decode_step_ms(const engine::StepTimeModel& model, const EngineLimits& limits,
                                    std::uint32_t sequences, std::uint32_t context_tokens);

}  // namespace penstock::capacity
