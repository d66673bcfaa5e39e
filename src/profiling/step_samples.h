// Times of prompts and decode steps from the times at which the tokens of requests arrived.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/time.h"

namespace penstock::profiling {

// A streamed answer as its client received it.
struct TimedAnswer {
  core::Duration sent{};
  std::vector<core::Duration> token_times;  // One for each event with text.
  // From the usage of the answer; 0 if the endpoint reports none.
  std::uint32_t prompt_tokens = 0, output_tokens = 0, cached_tokens = 0;
};

// Empty without a token.
[[nodiscard]] std::optional<double> ttft_ms(const TimedAnswer& answer);

struct DecodeSample {
  double step_ms = 0.0;
  double steps = 0.0;           // Steps per sequence within the measured window.
  double context_tokens = 0.0;  // Mean length of a sequence within it.
};

// Measures between the last first token and the first last token, in which all sequences decode and no prompt is
// computed. Empty if there is no such time or an answer has fewer than three tokens.
[[nodiscard]] std::optional<DecodeSample> decode_sample(std::span<const TimedAnswer> answers);

// Returns the largest number of answers that were between their first and last token at one time.
[[nodiscard]] std::uint32_t sequences_at_once(std::span<const TimedAnswer> answers);

// Returns the tokens that the earliest answer had received when the last one received its first token: the number of
// steps that the prompts took.
[[nodiscard]] std::uint32_t prompt_steps(std::span<const TimedAnswer> answers);

// Repeated samples of one time. The limits have an absolute part, because short times jitter.
inline constexpr std::size_t kSamplesLeast = 2, kSamplesMost = 7;
[[nodiscard]] double median(std::span<const double> samples);  // Not of nothing.
// Returns true once two samples are within 1.5 % (and 0.1 ms) of the median.
[[nodiscard]] bool agree(std::span<const double> samples);
// Returns true if half of the samples are more than 15 % (and 0.5 ms) away from the median.
[[nodiscard]] bool contradict(std::span<const double> samples);

}  // namespace penstock::profiling
