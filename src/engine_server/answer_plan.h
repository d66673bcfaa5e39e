// Output of the simulated model: the length and the text of an answer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "api/answer.h"

namespace penstock::engine_server {

struct AnswerOptions {
  std::uint64_t seed = 1;
  double output_median = 150.0;  // Median length in tokens of a natural answer, which is log-normal.
  double output_sigma = 0.7;     // Sigma of the underlying normal distribution.
};

// Settings of the request that determine its answer.
struct AnswerSettings {
  std::uint32_t max_tokens = 1;  // Greater than 0.
  bool ignore_eos = false;       // Generates exactly max_tokens.
  std::span<const std::string> stop;
};

struct AnswerPlan {
  std::uint32_t tokens = 1;  // Number of generated tokens, greater than 0.
  // Bytes of the text that the client receives: four per token, less if a stop string truncates the end.
  std::uint64_t text_bytes = 4;
  api::FinishReason finish = api::FinishReason::kStop;
  std::optional<std::size_t> stop{};  // Index of the stop string that ends the answer.
  std::uint64_t text_seed = 0;
};

// Equal seeds and prompts give equal answers on every engine. O(1); O(max_tokens) with stop strings.
[[nodiscard]] AnswerPlan plan_answer(const AnswerOptions& options, std::uint64_t prompt_hash,
                                     const AnswerSettings& settings);

// Text of the tokens [from, to) as sent to the client. A token is a word of three letters after a blank, so n tokens
// are 4·n bytes.
void append_answer(std::string& out, const AnswerPlan& plan, std::uint32_t from, std::uint32_t to);

// All bytes.
[[nodiscard]] std::uint64_t prompt_hash(std::string_view text);

}  // namespace penstock::engine_server
