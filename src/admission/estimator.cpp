#include "admission/estimator.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <initializer_list>
#include <limits>

namespace penstock::admission {
namespace {

constexpr double kBytesPerToken = 4.0;
// Bounds for images and padding. No tokenizer exceeds them.
constexpr double kBytesPerTokenMin = 0.05, kBytesPerTokenMax = 64.0;
constexpr double kPriorTokens = 500.0;  // Weight of a model's prior, in prompt tokens.
constexpr double kOutputTokens = 256.0;
// Weight that the estimate of a model and class has for a new tenant, in answers.
constexpr double kPriorAnswers = 3.0;
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

// The key of a class differs from every tenant's key, because it has no second separator.
Joined class_key(const TokenEstimator::Request& request) { return {request.model, request.traffic_class}; }
Joined tenant_key(const TokenEstimator::Request& request) {
  return {request.model, request.traffic_class, request.tenant};
}

// Returns the entry of the key, or the shared entry if the map is full.
template <class Map>
typename Map::mapped_type& place_of(Map& map, std::string_view key) {
  if (const auto found = map.find(key); found != map.end()) return found->second;
  const bool room = map.size() + 1 < TokenEstimator::kKeysMax && key.size() <= TokenEstimator::kKeyBytesMax;
  return map[room ? std::string{key} : std::string{}];
}

template <class Map>
const typename Map::mapped_type* find_in(const Map& map, std::string_view key) {
  if (const auto found = map.find(key); found != map.end()) return &found->second;
  const bool room = map.size() + 1 < TokenEstimator::kKeysMax && key.size() <= TokenEstimator::kKeyBytesMax;
  const auto shared = room ? map.end() : map.find(std::string_view{});
  return shared == map.end() ? nullptr : &shared->second;
}

std::uint32_t counted(double tokens) {
  return static_cast<std::uint32_t>(std::clamp(tokens, 1.0, double{std::numeric_limits<std::uint32_t>::max()}));
}

std::uint32_t prompt_estimate(std::size_t text_bytes, double bytes_per_token) {
  return counted(std::ceil(static_cast<double>(text_bytes) / bytes_per_token));
}

std::uint32_t output_estimate(double mean, std::optional<std::uint32_t> max_tokens) {
  const std::uint32_t expected = counted(std::round(mean));
  return max_tokens ? std::min(expected, *max_tokens) : expected;
}

}  // namespace

void TokenEstimator::Errors::add(double estimated, double actual) {
  absolute_error = absolute_error * kDecay + std::abs(estimated - actual);
  counted = counted * kDecay + actual;
  ++samples;
}

std::optional<double> TokenEstimator::Errors::relative() const {
  if (samples < kSamplesMin || counted <= 0.0) return std::nullopt;
  return absolute_error / counted;
}

double TokenEstimator::bytes_per_token(std::string_view model) const {
  const Ratio* learned = find_in(ratios_, model);
  const Ratio ratio = learned != nullptr ? *learned : Ratio{};
  const double mean = (ratio.bytes + kPriorTokens * kBytesPerToken) / (ratio.tokens + kPriorTokens);
  return std::clamp(mean, kBytesPerTokenMin, kBytesPerTokenMax);
}

// The estimate starts with all tenants of a model and class, and then follows the tenant.
double TokenEstimator::output_mean(const Length* of_class, const Length* of_tenant) {
  double mean = kOutputTokens;
  for (const Length* learned : {of_class, of_tenant})
    if (learned != nullptr)
      mean = (mean * kPriorAnswers + learned->mean * learned->weight) / (kPriorAnswers + learned->weight);
  return mean;
}

TokenEstimate TokenEstimator::estimate(const Request& request) const {
  TokenEstimate made;
  made.prompt_tokens = request.prompt_tokens > 0 ? request.prompt_tokens
                                                 : prompt_estimate(request.text_bytes, bytes_per_token(request.model));
  const double mean =
      output_mean(find_in(lengths_, class_key(request).view()), find_in(lengths_, tenant_key(request).view()));
  made.output_tokens = output_estimate(mean, request.max_tokens);
  return made;
}

void TokenEstimator::Length::add(double tokens) {
  weight = std::min(weight + 1.0, kAnswersMax);
  mean += (tokens - mean) / weight;
}

void TokenEstimator::learn(const Request& request, std::uint32_t prompt_tokens, std::uint32_t output_tokens) {
  if (request.prompt_tokens == 0 && request.text_bytes > 0 && prompt_tokens > 0) {
    prompt_errors_.add(prompt_estimate(request.text_bytes, bytes_per_token(request.model)), prompt_tokens);
    Ratio& ratio = place_of(ratios_, request.model);
    ratio.bytes = ratio.bytes * kDecay + static_cast<double>(request.text_bytes);
    ratio.tokens = ratio.tokens * kDecay + static_cast<double>(prompt_tokens);
  }
  Length& of_class = place_of(lengths_, class_key(request).view());
  Length& of_tenant = place_of(lengths_, tenant_key(request).view());
  const double mean = output_mean(&of_class, &of_tenant);
  output_errors_.add(output_estimate(mean, request.max_tokens), output_tokens);
  const bool cut = request.max_tokens && output_tokens >= *request.max_tokens;
  if (cut && static_cast<double>(output_tokens) < mean) return;
  of_class.add(output_tokens);
  of_tenant.add(output_tokens);
}

std::optional<double> TokenEstimator::prompt_error() const { return prompt_errors_.relative(); }
std::optional<double> TokenEstimator::output_error() const { return output_errors_.relative(); }

}  // namespace penstock::admission
