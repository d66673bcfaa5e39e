#include "capacity/iteration_interval.h"

#include <algorithm>
#include <cmath>

#include "capacity/mean_step.h"

namespace penstock::capacity {
namespace {

using core::IterationSums;
using core::IterationTotals;

// Capacity of an engine that does not report its own.
constexpr std::uint64_t kUsualKvTokens = 1'000'000;
constexpr core::Duration kBusyMax = std::chrono::hours{24 * 365 * 100};
// Tolerance for differences between the clocks of the engine and the observer.
constexpr double kElapsedSlack = 1.1;
// Number of steps of the slower kind that may have started before the interval or end after it.
constexpr double kStepsInFlight = 4;

bool went_back(const IterationSums& before, const IterationSums& after) {
  return after.steps < before.steps || after.busy < before.busy || after.decode_sequences < before.decode_sequences ||
         after.decode_context_tokens < before.decode_context_tokens || after.active_kv_tokens < before.active_kv_tokens;
}

IterationSums difference(const IterationSums& before, const IterationSums& after) {
  IterationSums done;
  done.steps = after.steps - before.steps;
  done.busy = after.busy - before.busy;
  done.decode_sequences = after.decode_sequences - before.decode_sequences;
  done.decode_context_tokens = after.decode_context_tokens - before.decode_context_tokens;
  done.active_kv_tokens = after.active_kv_tokens - before.active_kv_tokens;
  return done;
}

double mean_ms(const IterationSums& sums) {
  return sums.steps == 0 ? 0.0 : core::to_milliseconds(sums.busy) / static_cast<double>(sums.steps);
}

bool is_plausible(const IterationSums& sums, const std::optional<std::uint64_t>& kv_capacity_tokens) {
  if (sums.steps == 0)
    return sums.busy == core::Duration{} && sums.decode_sequences == 0 && sums.decode_context_tokens == 0 &&
           sums.active_kv_tokens == 0;
  const double held = static_cast<double>(sums.active_kv_tokens) / static_cast<double>(sums.steps);
  return sums.busy > core::Duration{} && sums.decode_context_tokens >= sums.decode_sequences &&
         (!kv_capacity_tokens || held <= static_cast<double>(*kv_capacity_tokens));
}

bool prompts_are_plausible(const IterationTotals& done) {
  const double squares = done.prefill_new_tokens_squared, pairs = done.prefill_attention_pairs;
  if (!std::isfinite(squares) || !std::isfinite(pairs) || squares < 0.0 || pairs < 0.0) return false;
  if (done.prefill.steps == 0)
    return done.prefill_requests == 0 && done.prefill_new_tokens == 0 && done.prefill_context_tokens == 0;
  const auto tokens = static_cast<double>(done.prefill_new_tokens), steps = static_cast<double>(done.prefill.steps);
  return done.prefill_requests >= done.prefill.steps && done.prefill_new_tokens >= done.prefill_requests &&
         squares >= tokens * tokens / steps * (1.0 - 1e-6);
}

// Two values with the mean and variance of a step's new tokens; the lower one is at least one token.
struct TwoPoints {
  double low, high, share_low;
};

TwoPoints two_points(double mean, double variance) {
  const double deviation = std::sqrt(std::max(0.0, variance));
  if (mean - deviation >= 1.0) return {mean - deviation, mean + deviation, 0.5};
  if (mean <= 1.0) return {mean, mean, 1.0};
  const double ratio = variance / ((mean - 1.0) * (mean - 1.0));
  return {1.0, 1.0 + (mean - 1.0) * (1.0 + ratio), ratio / (1.0 + ratio)};
}

MeanShape mean_of(const IterationSums& sums, const std::optional<std::uint64_t>& kv_capacity_tokens) {
  const auto steps = static_cast<double>(sums.steps);
  MeanShape shape;
  shape.decode_sequences = static_cast<double>(sums.decode_sequences) / steps;
  shape.decode_context_tokens = static_cast<double>(sums.decode_context_tokens) / steps;
  shape.active_kv_tokens = static_cast<double>(sums.active_kv_tokens) / steps;
  shape.total_kv_tokens = static_cast<double>(std::max<std::uint64_t>(1, kv_capacity_tokens.value_or(kUsualKvTokens)));
  return shape;
}

double prefill_step_ms(const engine::StepTimeModel& model, const IterationInterval& interval) {
  const IterationTotals& done = interval.done;
  const auto steps = static_cast<double>(done.prefill.steps);
  const double mean = static_cast<double>(done.prefill_new_tokens) / steps;
  const TwoPoints points = two_points(mean, done.prefill_new_tokens_squared / steps - mean * mean);
  const auto at = [&](double new_tokens) {
    const double share = new_tokens / mean;
    MeanShape shape = mean_of(done.prefill, interval.kv_capacity_tokens);
    shape.prefill_requests = share * static_cast<double>(done.prefill_requests) / steps;
    shape.prefill_new_tokens = new_tokens;
    shape.prefill_context_tokens = share * static_cast<double>(done.prefill_context_tokens) / steps;
    shape.prefill_attention_pairs = share * done.prefill_attention_pairs / steps;
    return mean_step_ms(model, shape);
  };
  if (points.low == points.high) return at(mean);
  return points.share_low * at(points.low) + (1.0 - points.share_low) * at(points.high);
}

}  // namespace

bool is_sane(const IterationTotals& totals) {
  const auto is_time = [](core::Duration busy) { return busy >= core::Duration{} && busy <= kBusyMax; };
  return is_time(totals.prefill.busy) && is_time(totals.decode.busy);
}

bool went_back(const IterationTotals& before, const IterationTotals& after) {
  return went_back(before.prefill, after.prefill) || went_back(before.decode, after.decode) ||
         after.prefill_requests < before.prefill_requests || after.prefill_new_tokens < before.prefill_new_tokens ||
         after.prefill_context_tokens < before.prefill_context_tokens;
}

IterationInterval interval_between(const signals::EngineSample& before, const signals::EngineSample& after) {
  const IterationTotals &from = before.iterations, &to = after.iterations;
  IterationInterval interval;
  interval.elapsed = after.sampled_at - before.sampled_at;
  interval.kv_capacity_tokens = after.kv_capacity_tokens;
  IterationTotals& done = interval.done;
  done.prefill = difference(from.prefill, to.prefill);
  done.decode = difference(from.decode, to.decode);
  done.prefill_requests = to.prefill_requests - from.prefill_requests;
  done.prefill_new_tokens = to.prefill_new_tokens - from.prefill_new_tokens;
  done.prefill_new_tokens_squared = to.prefill_new_tokens_squared - from.prefill_new_tokens_squared;
  done.prefill_context_tokens = to.prefill_context_tokens - from.prefill_context_tokens;
  done.prefill_attention_pairs = to.prefill_attention_pairs - from.prefill_attention_pairs;
  return interval;
}

bool is_plausible(const IterationInterval& interval) {
  const IterationTotals& done = interval.done;
  if (!is_plausible(done.prefill, interval.kv_capacity_tokens) ||
      !is_plausible(done.decode, interval.kv_capacity_tokens) || !prompts_are_plausible(done))
    return false;
  if (done.decode.decode_sequences < done.decode.steps) return false;
  const double longest_ms = std::max(mean_ms(done.prefill), mean_ms(done.decode));
  return core::to_milliseconds(done.busy()) <=
         kElapsedSlack * core::to_milliseconds(interval.elapsed) + kStepsInFlight * longest_ms;
}

double predicted_busy_ms(const engine::StepTimeModel& model, const IterationInterval& interval) {
  const IterationTotals& done = interval.done;
  double busy = 0.0;
  if (done.prefill.steps > 0) busy += static_cast<double>(done.prefill.steps) * prefill_step_ms(model, interval);
  if (done.decode.steps > 0)
    busy +=
        static_cast<double>(done.decode.steps) * mean_step_ms(model, mean_of(done.decode, interval.kv_capacity_tokens));
  return busy;
}

}  // namespace penstock::capacity
