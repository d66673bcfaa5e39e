// What the simulated model says: how long an answer is, and its words.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "api/answer.h"

namespace penstock::engine_server {

struct AnswerOptions {
  std::uint64_t seed = 1;
  double output_median = 150.0;  // tokens of a natural answer, log-normal …
  double output_sigma = 0.7;     // … with this sigma of the underlying normal
};

// What the request says of its answer.
struct AnswerWish {
  std::uint32_t max_tokens = 1;  // > 0
  bool ignore_eos = false;       // exactly max_tokens, whatever a model would do
  std::span<const std::string> stop;
};

struct AnswerPlan {
  std::uint32_t tokens = 1;  // that are generated; > 0
  // Of their four bytes each, those that the client gets: less than all of them where a stop string cuts the end off.
  std::uint64_t text_bytes = 4;
  api::FinishReason finish = api::FinishReason::kStop;
  std::uint64_t text_seed = 0;
};

// The same seed and prompt give the same answer, on any engine. O(1), or with stop strings O(max_tokens).
[[nodiscard]] AnswerPlan plan_answer(const AnswerOptions& options, std::uint64_t prompt_hash, const AnswerWish& wish);

// What the tokens [from, to) of the answer say to the client. Tokens are words of three letters behind a blank, so that n
// of them are 4·n bytes of text.
void append_answer(std::string& out, const AnswerPlan& plan, std::uint32_t from, std::uint32_t to);

// Of all bytes.
[[nodiscard]] std::uint64_t prompt_hash(std::string_view text);

}  // namespace penstock::engine_server
