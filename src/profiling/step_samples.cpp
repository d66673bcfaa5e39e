#include "profiling/step_samples.h"

#include <algorithm>
#include <cmath>

#include "core/result.h"

namespace penstock::profiling {
namespace {

constexpr double kAgreeShare = 0.03, kAgreeMs = 0.1;
constexpr double kContradictShare = 0.15, kContradictMs = 0.5;

// Tokens per event of an answer: servers merge tokens into one event or send tokens without text.
double tokens_per_gap(const TimedAnswer& answer) {
  const auto events = static_cast<double>(answer.token_times.size());
  const double tokens = answer.output_tokens > 1 ? answer.output_tokens : events;
  return (tokens - 1.0) / (events - 1.0);
}

std::vector<double> distances(std::span<const double> samples) {
  const double middle = median(samples);
  std::vector<double> away;
  for (const double sample : samples) away.push_back(std::abs(sample - middle));
  std::sort(away.begin(), away.end());
  return away;
}

}  // namespace

std::optional<double> ttft_ms(const TimedAnswer& answer) {
  if (answer.token_times.empty()) return std::nullopt;
  return core::to_milliseconds(answer.token_times.front() - answer.sent);
}

std::optional<DecodeSample> decode_sample(std::span<const TimedAnswer> answers) {
  core::Duration from = core::Duration::min(), until = core::Duration::max();
  for (const TimedAnswer& answer : answers) {
    if (answer.token_times.size() < 3) return std::nullopt;
    from = std::max(from, answer.token_times.front());
    until = std::min(until, answer.token_times.back());
  }
  double time_ms = 0.0, steps = 0.0, context = 0.0;
  for (const TimedAnswer& answer : answers) {
    const auto& times = answer.token_times;
    const auto first = std::lower_bound(times.begin(), times.end(), from);
    const auto last = std::upper_bound(times.begin(), times.end(), until) - 1;
    if (last <= first) return std::nullopt;
    const double per_gap = tokens_per_gap(answer);
    time_ms += core::to_milliseconds(*last - *first);
    steps += per_gap * static_cast<double>(last - first);
    const auto middle = static_cast<double>((first - times.begin()) + (last - times.begin())) / 2.0;
    context += answer.prompt_tokens + 1.0 + per_gap * middle;
  }
  const auto sequences = static_cast<double>(answers.size());
  return DecodeSample{time_ms / steps, steps / sequences, context / sequences};
}

std::uint32_t sequences_at_once(std::span<const TimedAnswer> answers) {
  std::uint32_t most = 0;
  for (const TimedAnswer& at : answers) {
    if (at.token_times.empty()) continue;
    const core::Duration time = at.token_times.front();
    const auto running = std::count_if(answers.begin(), answers.end(), [&](const TimedAnswer& answer) {
      return !answer.token_times.empty() && answer.token_times.front() <= time && time <= answer.token_times.back();
    });
    most = std::max(most, static_cast<std::uint32_t>(running));
  }
  return most;
}

std::uint32_t prompt_steps(std::span<const TimedAnswer> answers) {
  const TimedAnswer* earliest = nullptr;
  core::Duration last = core::Duration::min();
  for (const TimedAnswer& answer : answers) {
    if (answer.token_times.empty()) continue;
    if (earliest == nullptr || answer.token_times.front() < earliest->token_times.front()) earliest = &answer;
    last = std::max(last, answer.token_times.front());
  }
  if (earliest == nullptr) return 0;
  const auto& times = earliest->token_times;
  return static_cast<std::uint32_t>(std::upper_bound(times.begin(), times.end(), last) - times.begin());
}

double median(std::span<const double> samples) {
  PENSTOCK_ASSERT(!samples.empty(), "the callers have samples");
  std::vector<double> sorted{samples.begin(), samples.end()};
  std::sort(sorted.begin(), sorted.end());
  const std::size_t middle = sorted.size() / 2;
  return sorted.size() % 2 == 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2.0;
}

bool agree(std::span<const double> samples) {
  if (samples.size() < kSamplesLeast) return false;
  return distances(samples)[1] <= kAgreeShare / 2.0 * median(samples) + kAgreeMs;
}

bool contradict(std::span<const double> samples) {
  return samples.size() >= kSamplesMost &&
         distances(samples)[samples.size() / 2] > kContradictShare * median(samples) + kContradictMs;
}

}  // namespace penstock::profiling
