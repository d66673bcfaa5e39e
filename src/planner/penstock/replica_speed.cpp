#include "planner/penstock/replica_speed.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "capacity/cost_share.h"

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
  // Capacities of replicas differ a little. Each change discards what trials have found.
  const auto kv_tokens = least_kv_tokens(pool);
  if (kv_tokens &&
      !(applied_.kv_tokens && is_near(static_cast<double>(*kv_tokens), static_cast<double>(*applied_.kv_tokens))))
    learned.kv_tokens = kv_tokens;
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

struct ReplicaSpeed::Shape {
  double prompt = 0.0, answer = 0.0;     // Mean lengths.
  double computed = 0.0, context = 0.0;  // Of a prompt: not cached and cached tokens.

  [[nodiscard]] double attention_pairs() const { return computed * (context + (computed + 1.0) / 2.0); }
};

std::optional<ReplicaSpeed::Shape> ReplicaSpeed::shape_of(const signals::PoolObservation& pool) const {
  const signals::TrafficWindow& traffic = pool.last_minute;
  if (!profile_.step_time || traffic.arrivals == 0 || traffic.completed == 0) return std::nullopt;
  Shape shape;
  shape.prompt = static_cast<double>(traffic.input_tokens) / static_cast<double>(traffic.arrivals);
  shape.answer = static_cast<double>(traffic.completed_output_tokens) / static_cast<double>(traffic.completed);
  shape.computed = shape.prompt * (1.0 - cached_share(pool));
  shape.context = shape.prompt - shape.computed;
  return shape;
}

capacity::EngineLimits ReplicaSpeed::limits() const {
  capacity::EngineLimits limits = profile_.limits;
  if (applied_.max_sequences) limits.max_sequences = *applied_.max_sequences;
  if (applied_.kv_tokens) limits.kv_tokens = static_cast<double>(*applied_.kv_tokens);
  return limits;
}

LatencyEstimate ReplicaSpeed::latency(const signals::PoolObservation& pool) const {
  LatencyEstimate slowest;
  const auto shape = shape_of(pool);
  if (!shape) return slowest;
  const auto raise = [](std::optional<double>& most, double value) { most = std::max(most.value_or(value), value); };
  for (const signals::ReplicaObservation& replica : pool.replicas) {
    if (replica.state != signals::ReplicaState::kReady || !replica.sample) continue;
    const double factor = correction_.factor_of(replica.replica).value_or(applied_.step_time);
    if (replica.sample->running_requests > 0 && pool.role != signals::Role::kPrefill)
      raise(slowest.itl_ms, factor * itl_ms(pool, *shape, replica.sample->running_requests));
    if (pool.role != signals::Role::kDecode) raise(slowest.ttft_ms, factor * ttft_ms(pool, *shape, *replica.sample));
  }
  return slowest;
}

double ReplicaSpeed::itl_ms(const signals::PoolObservation& pool, const Shape& shape, std::uint32_t running) const {
  engine::StepShape decode = decode_step(shape, running);
  const double decode_ms = core::to_milliseconds(profile_.step_time->step(decode));
  if (pool.role != signals::Role::kAggregated) return decode_ms;
  engine::StepShape mixed = decode;
  mixed.prefill_requests = 1;
  mixed.prefill_new_tokens = static_cast<std::uint64_t>(shape.computed);
  mixed.prefill_context_tokens = static_cast<std::uint64_t>(shape.context);
  mixed.prefill_attention_pairs = shape.attention_pairs();
  const double steps = std::max(1.0, shape.answer / decode.decode_sequences);
  return decode_ms + (core::to_milliseconds(profile_.step_time->step(mixed)) - decode_ms) / steps;
}

// As in Dynamo's planner: the steps of the tokens that wait and of one more prompt, each with as many as fit.
double ReplicaSpeed::ttft_ms(const signals::PoolObservation& pool, const Shape& shape,
                             const signals::EngineSample& sample) const {
  const double share = shape.prompt > 0.0 ? shape.computed / shape.prompt : 1.0;
  const double queued = sample.queued_prefill_tokens ? static_cast<double>(*sample.queued_prefill_tokens)
                                                     : static_cast<double>(sample.queued_requests) * shape.prompt;
  const double tokens = std::max(1.0, queued * share + shape.computed);
  const auto step_ms = [&](double chunk) {
    engine::StepShape step = decode_step(shape, pool.role == signals::Role::kAggregated ? sample.running_requests : 0);
    const double prompts = chunk / std::max(1.0, shape.computed);
    step.prefill_requests = static_cast<std::uint32_t>(std::max(1.0, std::round(prompts)));
    step.prefill_new_tokens = static_cast<std::uint64_t>(std::max(1.0, chunk));
    step.prefill_context_tokens = static_cast<std::uint64_t>(shape.context * std::max(1.0, prompts));
    step.prefill_attention_pairs = prompts * shape.attention_pairs();
    return core::to_milliseconds(profile_.step_time->step(step));
  };
  const double chunk = std::max(1.0, profile_.limits.max_batched_tokens);
  const double whole = std::floor(tokens / chunk), rest = tokens - whole * chunk;
  return (whole > 0.0 ? whole * step_ms(chunk) : 0.0) + (rest >= 1.0 ? step_ms(rest) : 0.0);
}

engine::StepShape ReplicaSpeed::decode_step(const Shape& shape, std::uint32_t sequences) const {
  engine::StepShape decode;
  decode.decode_sequences = sequences;
  decode.decode_context_tokens = static_cast<std::uint64_t>(sequences * (shape.prompt + shape.answer / 2.0));
  decode.active_kv_tokens = decode.decode_context_tokens;
  decode.total_kv_tokens = static_cast<std::uint64_t>(std::max(1.0, limits().kv_tokens));
  return decode;
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

void ReplicaSpeed::observe_lengths(std::span<const signals::RecentRequest> recent, core::Instant now) {
  if (!profile_.ranges) return;
  if (compared_at_ && now >= *compared_at_ && now < *compared_at_ + core::kMinute) return;
  compared_at_ = now;
  capacity::ProfileRangeCheck check{*profile_.ranges};
  for (const signals::RecentRequest& request : recent)
    if (request.output_tokens > 0) check.add(request.input_tokens, request.output_tokens);
  outside_profile_ = check.coverage().share_outside;
}

std::optional<capacity::ReplicaEstimate> ReplicaSpeed::estimate(const signals::PoolObservation& pool,
                                                                const signals::SloTarget& slo) const {
  const auto shape = shape_of(pool);
  if (!shape) return std::nullopt;
  capacity::CapacityOptions options;
  options.role = pool.role;
  options.factor = applied_.step_time * (1.0 + outside_profile_);
  return capacity::token_capacity(*profile_.step_time, {shape->prompt, shape->answer, cached_share(pool)}, limits(),
                                  slo, options);
}

std::optional<double> ReplicaSpeed::input_time_share(const signals::PoolObservation& pool) const {
  const auto shape = shape_of(pool);
  if (!shape || pool.role != signals::Role::kAggregated) return std::nullopt;
  double running = 0.0, replicas = 0.0;
  for (const signals::ReplicaObservation& replica : pool.replicas) {
    if (!replica.sample || replica.sample->running_requests == 0) continue;
    running += replica.sample->running_requests;
    replicas += 1.0;
  }
  return capacity::input_cost_share(*profile_.step_time, {shape->prompt, shape->answer, cached_share(pool)}, limits(),
                                    replicas > 0.0 ? running / replicas : 1.0);
}

std::optional<capacity::FormulaResult> ReplicaSpeed::by_formula(const signals::PoolObservation& pool,
                                                                const signals::SloTarget& slo, double growth,
                                                                double utilisation) const {
  const double seconds = core::to_seconds(pool.last_minute.length);
  const auto shape = shape_of(pool);
  const auto estimate = this->estimate(pool, slo);
  if (!shape || !estimate || seconds <= 0.0) return std::nullopt;
  const double rate = growth * static_cast<double>(pool.last_minute.arrivals) / seconds;
  return capacity::replicas_by_formula(rate * shape->prompt, rate * shape->answer, estimate->tokens, utilisation);
}

}  // namespace penstock::planner
