#include "planner/penstock/replica_speed.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace penstock::planner {
namespace {

constexpr double kWorthCorrecting = 0.05;  // Minimum relative change of the applied factor.
constexpr double kKnownWell = 0.05;        // Maximum standard error relative to the factor.
constexpr double kRoughest = 0.3;          // Relative change that is applied whatever the error.
constexpr double kLeast = 0.2, kMost = 10.0;
constexpr double kWarmCache = 0.95;  // Maximum assumed hit share, because some prompts are always computed.

double cached_share(const signals::PoolObservation& pool) {
  double prompts = 0.0, hits = 0.0;
  for (const signals::ReplicaObservation& replica : pool.replicas) {
    if (!replica.sample || !replica.sample->prompt_tokens_total || !replica.sample->prefix_hit_tokens_total) continue;
    prompts += static_cast<double>(*replica.sample->prompt_tokens_total);
    hits += static_cast<double>(*replica.sample->prefix_hit_tokens_total);
  }
  return prompts > 0.0 ? std::clamp(hits / prompts, 0.0, kWarmCache) : 0.0;
}

bool is_near(double value, double reference) { return std::abs(value / reference - 1.0) < kWorthCorrecting; }

// Capacity of the smallest KV cache; empty if no ready replica reports one.
std::optional<std::uint64_t> least_kv_tokens(const signals::PoolObservation& pool) {
  std::optional<std::uint64_t> least;
  for (const signals::ReplicaObservation& replica : pool.replicas) {
    if (replica.state != signals::ReplicaState::kReady || !replica.sample) continue;
    const auto& tokens = replica.sample->kv_capacity_tokens;
    if (tokens && *tokens > 0) least = std::min(least.value_or(*tokens), *tokens);
  }
  return least;
}

}  // namespace

bool ReplicaSpeed::observe(const signals::PoolObservation& pool, core::Instant now) {
  correction_.observe(pool, now);
  concurrency_.observe(pool);
  EngineCorrection learned = applied_;
  learned.step_time = learned_step_time();
  learned.max_sequences = concurrency_.sequences();
  if (const auto kv_tokens = least_kv_tokens(pool)) learned.kv_tokens = kv_tokens;
  // A limit that the profile has already corrects nothing.
  if (learned.max_sequences && is_near(*learned.max_sequences, profile_.limits.max_sequences))
    learned.max_sequences.reset();
  if (learned.kv_tokens && is_near(static_cast<double>(*learned.kv_tokens), profile_.limits.kv_tokens))
    learned.kv_tokens.reset();
  return std::exchange(applied_, learned) != learned;
}

double ReplicaSpeed::learned_step_time() const {
  const std::optional<double> factor = correction_.factor(), error = correction_.standard_error();
  if (!factor || !error) return applied_.step_time;
  const double relative_error = *error / *factor;
  // A rough measurement is better than a guess, and does not replace another one within its error.
  if (relative_error > kKnownWell && !profile_.is_default) return applied_.step_time;
  const double bounded = std::clamp(*factor, kLeast, kMost);
  const double worth = std::max(kWorthCorrecting, std::min(relative_error, kRoughest));
  return std::abs(bounded / applied_.step_time - 1.0) < worth ? applied_.step_time : bounded;
}

std::optional<double> ReplicaSpeed::itl_ms(const signals::PoolObservation& pool) const {
  std::uint64_t running = 0, replicas = 0;
  for (const signals::ReplicaObservation& replica : pool.replicas) {
    if (replica.state != signals::ReplicaState::kReady || !replica.sample) continue;
    running += replica.sample->running_requests;
    replicas += replica.sample->running_requests > 0 ? 1 : 0;
  }
  const signals::TrafficWindow& traffic = pool.last_minute;
  if (!profile_.step_time || replicas == 0 || traffic.arrivals == 0 || traffic.completed == 0) return std::nullopt;
  const double prompt = static_cast<double>(traffic.input_tokens) / static_cast<double>(traffic.arrivals);
  const double answer = static_cast<double>(traffic.completed_output_tokens) / static_cast<double>(traffic.completed);
  engine::StepShape decode;
  decode.decode_sequences = static_cast<std::uint32_t>((running + replicas / 2) / replicas);
  decode.decode_context_tokens = static_cast<std::uint64_t>(decode.decode_sequences * (prompt + answer / 2.0));
  decode.active_kv_tokens = decode.decode_context_tokens;
  decode.total_kv_tokens = std::max<std::uint64_t>(
      1, applied_.kv_tokens.value_or(static_cast<std::uint64_t>(std::max(0.0, profile_.limits.kv_tokens))));
  const double decode_ms = core::to_milliseconds(profile_.step_time->step(decode));
  double mean_ms = decode_ms;
  if (pool.role == signals::Role::kAggregated) {
    engine::StepShape mixed = decode;
    const double computed = prompt * (1.0 - cached_share(pool));
    mixed.prefill_requests = 1;
    mixed.prefill_new_tokens = static_cast<std::uint64_t>(computed);
    mixed.prefill_context_tokens = static_cast<std::uint64_t>(prompt - computed);
    mixed.prefill_attention_pairs = computed * (prompt - computed + (computed + 1.0) / 2.0);
    const double steps = std::max(1.0, answer / decode.decode_sequences);
    mean_ms += (core::to_milliseconds(profile_.step_time->step(mixed)) - decode_ms) / steps;
  }
  return mean_ms * applied_.step_time;
}

double ReplicaSpeed::replicas_lacking(const signals::PoolObservation& pool) const {
  const std::optional<double> usual = correction_.factor();
  if (!usual) return 0.0;
  double lacking = 0.0;
  for (const signals::ReplicaObservation& replica : pool.replicas) {
    if (replica.state != signals::ReplicaState::kReady) continue;
    if (const auto factor = correction_.factor_of(replica.replica))
      lacking += std::max(0.0, 1.0 - *usual / *factor - kWorthCorrecting);
  }
  return lacking;
}

std::optional<capacity::FormulaResult> ReplicaSpeed::by_formula(const signals::PoolObservation& pool,
                                                                const signals::SloTarget& slo, double growth,
                                                                double utilisation) const {
  const signals::TrafficWindow& traffic = pool.last_minute;
  const double seconds = core::to_seconds(traffic.length);
  if (!profile_.step_time || traffic.arrivals == 0 || traffic.completed == 0 || seconds <= 0.0) return std::nullopt;
  const auto arrivals = static_cast<double>(traffic.arrivals);
  capacity::TrafficShape shape;
  shape.input_tokens = static_cast<double>(traffic.input_tokens) / arrivals;
  shape.output_tokens = static_cast<double>(traffic.completed_output_tokens) / static_cast<double>(traffic.completed);
  shape.cached_share = cached_share(pool);
  capacity::CapacityOptions options;
  options.role = pool.role;
  options.factor = applied_.step_time * profile_.widening;
  capacity::EngineLimits limits = profile_.limits;
  if (applied_.max_sequences) limits.max_sequences = *applied_.max_sequences;
  if (applied_.kv_tokens) limits.kv_tokens = static_cast<double>(*applied_.kv_tokens);
  const auto estimate = capacity::token_capacity(*profile_.step_time, shape, limits, slo, options);
  if (!estimate) return std::nullopt;
  const double rate = growth * arrivals / seconds;
  return capacity::replicas_by_formula(rate * shape.input_tokens, rate * shape.output_tokens, estimate->tokens,
                                       utilisation);
}

}  // namespace penstock::planner
