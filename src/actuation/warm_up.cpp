#include "actuation/warm_up.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace penstock::actuation {

namespace {

constexpr std::uint32_t kUnknownLength = 256;

std::vector<std::uint32_t> representative_lengths(std::span<const std::uint32_t> recent, const WarmUpOptions& options) {
  std::vector<std::uint32_t> lengths;
  if (options.representative == 0) return lengths;
  std::vector<std::uint32_t> sorted{recent.begin(), recent.end()};
  std::sort(sorted.begin(), sorted.end());
  if (sorted.empty()) sorted.push_back(kUnknownLength);
  for (std::uint32_t i = 0; i < options.representative; ++i) {
    const std::size_t middle = (2 * std::size_t{i} + 1) * sorted.size() / (2 * std::size_t{options.representative});
    lengths.push_back(std::clamp<std::uint32_t>(sorted[middle], 1, std::max(options.prompt_tokens_max, 1U)));
  }
  lengths.erase(std::unique(lengths.begin(), lengths.end()), lengths.end());
  return lengths;
}

// Unique text: the first word differs between prompts.
std::string made_up_text(std::uint32_t number, std::uint32_t tokens, double bytes_per_token) {
  const auto bytes =
      static_cast<std::size_t>(std::max(1.0, std::round(static_cast<double>(tokens) * std::max(bytes_per_token, 0.1))));
  std::string text = fmt::format("{} warm-up.", number + 1);
  for (std::uint32_t word = 0; text.size() < bytes; ++word) text += fmt::format(" {}", (word * 7919U + number) % 997U);
  text.resize(bytes);
  return text;
}

double saved_tokens(std::uint64_t hits, std::uint32_t tokens) {
  return static_cast<double>(hits) * static_cast<double>(tokens);
}

class Budget {
 public:
  explicit Budget(const WarmUpOptions& options) : tokens_(options.tokens_max), bytes_(options.bytes_max) {}

  bool take(std::uint32_t tokens, std::size_t bytes) {
    if (tokens > tokens_ || bytes > bytes_) return false;
    tokens_ -= tokens;
    bytes_ -= bytes;
    return true;
  }

 private:
  std::uint64_t tokens_, bytes_;
};

}  // namespace

WarmUp plan_warm_up(std::span<const std::uint32_t> recent_input_tokens, std::span<const HotPrefix> prefixes,
                    const WarmUpOptions& options) {
  WarmUp plan;
  Budget budget{options};
  std::uint32_t number = 0;
  for (const std::uint32_t tokens : representative_lengths(recent_input_tokens, options)) {
    WarmUp::Prompt prompt{made_up_text(number++, tokens, options.bytes_per_token), tokens,
                          std::max(options.output_tokens, 1U)};
    if (budget.take(tokens, prompt.text.size())) plan.representative.push_back(std::move(prompt));
  }

  std::vector<const HotPrefix*> ranked;
  for (const HotPrefix& prefix : prefixes) ranked.push_back(&prefix);
  std::sort(ranked.begin(), ranked.end(), [](const HotPrefix* a, const HotPrefix* b) {
    const double saved_a = saved_tokens(a->hits, a->tokens), saved_b = saved_tokens(b->hits, b->tokens);
    return saved_a != saved_b ? saved_a > saved_b : a->body < b->body;
  });
  for (const HotPrefix* prefix : ranked)
    if (plan.prefixes.size() < options.prefixes_max && budget.take(prefix->tokens, prefix->body.size()))
      plan.prefixes.push_back(*prefix);
  return plan;
}

}  // namespace penstock::actuation
