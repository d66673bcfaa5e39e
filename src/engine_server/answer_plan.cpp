#include "engine_server/answer_plan.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "api/prompt_keys.h"
#include "core/random.h"

namespace penstock::engine_server {
namespace {

constexpr std::uint32_t kBytes = api::kBytesPerToken;

void append_word(std::string& out, std::uint64_t text_seed, std::uint64_t position) {
  std::uint64_t bits = core::mix64(text_seed + position);
  char word[kBytes] = {' '};
  for (std::uint32_t letter = 1; letter < kBytes; ++letter, bits /= 26)
    word[letter] = static_cast<char>('a' + static_cast<int>(bits % 26));
  out.append(word, kBytes);
}

// Finds the end of the first stop string in decoding order; among those that end within the same token, the one that
// starts first, because it truncates most.
void cut_at_stop(AnswerPlan& plan, std::span<const std::string> stops) {
  std::string text;
  text.reserve(std::size_t{plan.tokens} * kBytes);
  for (std::uint32_t position = 0; position < plan.tokens; ++position) append_word(text, plan.text_seed, position);
  for (std::size_t i = 0; i < stops.size(); ++i) {
    const std::string& stop = stops[i];
    if (stop.empty()) continue;
    const std::size_t at = text.find(stop);
    if (at == std::string::npos) continue;
    const std::uint32_t tokens = api::simulated_tokens(at + stop.size());
    if (tokens > plan.tokens || (tokens == plan.tokens && at >= plan.text_bytes)) continue;
    plan.tokens = tokens;
    plan.text_bytes = at;
    plan.finish = api::FinishReason::kStop;
    plan.stop = i;
  }
}

}  // namespace

AnswerPlan plan_answer(const AnswerOptions& options, std::uint64_t prompt_hash, const AnswerSettings& settings) {
  AnswerPlan plan;
  plan.text_seed = core::mix64(options.seed ^ prompt_hash);
  plan.tokens = settings.max_tokens;
  plan.finish = api::FinishReason::kLength;
  if (!settings.ignore_eos) {
    core::RandomStream random{plan.text_seed};
    const double natural = std::max(1.0, std::round(random.log_normal(options.output_median, options.output_sigma)));
    if (natural <= static_cast<double>(settings.max_tokens)) {
      plan.tokens = static_cast<std::uint32_t>(natural);
      plan.finish = api::FinishReason::kStop;
    }
  }
  plan.text_bytes = std::uint64_t{plan.tokens} * kBytes;
  if (!settings.stop.empty()) cut_at_stop(plan, settings.stop);
  return plan;
}

void append_answer(std::string& out, const AnswerPlan& plan, std::uint32_t from, std::uint32_t to) {
  const std::size_t before = out.size();
  for (std::uint32_t position = from; position < to; ++position) {
    if (std::uint64_t{position} * kBytes >= plan.text_bytes) break;
    append_word(out, plan.text_seed, position);
  }
  const std::uint64_t left = plan.text_bytes - std::min(plan.text_bytes, std::uint64_t{from} * kBytes);
  if (out.size() - before > left) out.resize(before + static_cast<std::size_t>(left));
}

std::uint64_t prompt_hash(std::string_view text) {
  std::uint64_t hash = core::mix64(text.size());
  while (!text.empty()) {
    std::uint64_t word = 0;
    const std::size_t size = std::min(text.size(), sizeof word);
    std::memcpy(&word, text.data(), size);
    hash = core::mix64(hash ^ word);
    text.remove_prefix(size);
  }
  return hash;
}

}  // namespace penstock::engine_server
