#include "admission/estimator.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <initializer_list>
#include <limits>

#include "core/enum_names.h"

namespace penstock::admission {
namespace {

constexpr double kBytesPerTokenOfAscii = 4.0, kBytesPerTokenOfOthers = 2.0;
// The lower bound leaves room for the tokens that a chat template adds to a short text.
constexpr double kBytesPerTokenMin = 0.25, kBytesPerTokenMax = kBytesPerTokenMost;
constexpr double kPriorTokens = 500.0;  // Weight of the prior of a ratio, in prompt tokens.
constexpr double kOutputTokens = 256.0;
constexpr double kPriorAnswers = 3.0;        // Weight of the prior of an output length, in answers.
constexpr double kAnswersMax = 64.0;         // Maximum weight of a mean, in answers; older answers decay.
constexpr double kDecay = 1.0 - 1.0 / 64.0;  // Decay factor of the sums per answer.
constexpr std::uint64_t kSamplesMin = 10;    // Minimum number of answers before an error is reported.

// A look-up key of several names with separators, built without allocation, because a request needs several of them. A
// name that is too long for a key is truncated to a length that stays too long.
class Joined {
 public:
  Joined(std::initializer_list<std::string_view> names) {
    for (const std::string_view& name : names) {
      if (&name != names.begin()) append({"\0", 1});
      append(name);
    }
  }
  [[nodiscard]] std::string_view view() const { return {bytes_.data(), size_}; }

 private:
  void append(std::string_view text) { size_ += text.copy(bytes_.data() + size_, bytes_.size() - size_); }

  std::array<char, TokenEstimator::kKeyBytesMax + 1> bytes_;
  std::size_t size_ = 0;
};

Joined ratio_key(const TokenEstimator::Request& request) {
  return {request.model, to_string(request.text_kind), request.tenant};
}
Joined length_key(const TokenEstimator::Request& request) {
  return {request.model, request.traffic_class, request.tenant};
}

// Returns the entry of the key, or null if it can not be stored.
template <class Map>
typename Map::mapped_type* place_of(Map& map, std::string_view key) {
  if (const auto found = map.find(key); found != map.end()) return &found->second;
  if (map.size() >= TokenEstimator::kKeysMax || key.size() > TokenEstimator::kKeyBytesMax) return nullptr;
  return &map[std::string{key}];
}

template <class Map>
const typename Map::mapped_type* find_in(const Map& map, std::string_view key) {
  const auto found = map.find(key);
  return found == map.end() ? nullptr : &found->second;
}

std::uint32_t counted(double tokens) {
  return static_cast<std::uint32_t>(std::clamp(tokens, 1.0, double{std::numeric_limits<std::uint32_t>::max()}));
}

std::uint32_t output_estimate(double mean, std::optional<std::uint32_t> max_tokens) {
  const std::uint32_t expected = counted(std::round(mean));
  return max_tokens ? std::min(expected, *max_tokens) : expected;
}

}  // namespace

const char* to_string(TextKind kind) { return core::name_of<TextKind::kNonAscii>(kind, {"ascii", "non_ascii"}); }

void TokenEstimator::Errors::add(double estimated, double actual) {
  absolute_error = absolute_error * kDecay + std::abs(estimated - actual);
  counted = counted * kDecay + actual;
  ++samples;
}

std::optional<double> TokenEstimator::Errors::relative() const {
  if (samples < kSamplesMin || counted <= 0.0) return std::nullopt;
  return absolute_error / counted;
}

std::uint32_t TokenEstimator::prompt_estimate(const Request& request, const Ratio* learned) {
  if (request.prompt_tokens > 0) return counted(static_cast<double>(request.prompt_tokens) + request.media_tokens);
  const double prior = request.text_kind == TextKind::kAscii ? kBytesPerTokenOfAscii : kBytesPerTokenOfOthers;
  const Ratio ratio = learned != nullptr ? *learned : Ratio{};
  const double mean = (ratio.bytes + kPriorTokens * prior) / (ratio.tokens + kPriorTokens);
  const double bytes_per_token = std::clamp(mean, kBytesPerTokenMin, kBytesPerTokenMax);
  return counted(std::ceil(static_cast<double>(request.text_bytes) / bytes_per_token) + request.media_tokens);
}

double TokenEstimator::output_mean(const Length* learned) {
  double mean = kOutputTokens;
  // The prior counts as kPriorAnswers answers twice, so that the first answers outweigh it sooner.
  for (int times = 0; learned != nullptr && times < 2; ++times)
    mean = (mean * kPriorAnswers + learned->mean * learned->weight) / (kPriorAnswers + learned->weight);
  return mean;
}

TokenEstimate TokenEstimator::estimate(const Request& request) const {
  TokenEstimate made;
  made.prompt_tokens = prompt_estimate(request, find_in(ratios_, ratio_key(request).view()));
  made.output_tokens = expected_output(request);
  return made;
}

std::uint32_t TokenEstimator::expected_output(const Request& request) const {
  return output_estimate(output_mean(find_in(lengths_, length_key(request).view())), request.max_tokens);
}

void TokenEstimator::Length::add(double tokens) {
  weight = std::min(weight + 1.0, kAnswersMax);
  mean += (tokens - mean) / weight;
}

void TokenEstimator::learn(const Request& request, std::uint32_t prompt_tokens, std::uint32_t output_tokens) {
  const bool text_only = request.prompt_tokens == 0 && request.media_tokens == 0 && request.text_bytes > 0;
  if (text_only && prompt_tokens > 0) {
    Ratio* ratio = place_of(ratios_, ratio_key(request).view());
    prompt_errors_.add(prompt_estimate(request, ratio), prompt_tokens);
    if (ratio != nullptr) {
      ratio->bytes = ratio->bytes * kDecay + static_cast<double>(request.text_bytes);
      ratio->tokens = ratio->tokens * kDecay + static_cast<double>(prompt_tokens);
    }
  }
  Length* length = place_of(lengths_, length_key(request).view());
  const double mean = output_mean(length);
  output_errors_.add(output_estimate(mean, request.max_tokens), output_tokens);
  const bool cut = request.max_tokens && output_tokens >= *request.max_tokens;
  if (length == nullptr || (cut && static_cast<double>(output_tokens) < mean)) return;
  length->add(output_tokens);
}

std::optional<double> TokenEstimator::prompt_error() const { return prompt_errors_.relative(); }
std::optional<double> TokenEstimator::output_error() const { return output_errors_.relative(); }

}  // namespace penstock::admission
