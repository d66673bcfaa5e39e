#include "planner/policies/dynamo_engine_model.h"

#include <algorithm>
#include <cmath>

namespace penstock::planner {

using signals::Role;

namespace {

constexpr double kHitRatioMax = 0.95;
constexpr std::uint64_t kBatchSizesMax = 128;

double uncached(double hit_ratio) { return 1.0 - std::clamp(hit_ratio, 0.0, kHitRatioMax); }
double computed_prompt(const DynamoRequestShape& shape) {
  return std::max(1.0, std::ceil(std::ceil(shape.input_tokens) * uncached(shape.hit_ratio)));
}
double output_of(const DynamoRequestShape& shape) { return std::max(1.0, std::ceil(shape.output_tokens)); }
// The prompt and half of the output.
double context_of(const DynamoRequestShape& shape) {
  return std::max(1.0, std::ceil(shape.input_tokens) + std::floor(output_of(shape) / 2.0));
}
// Prompt tokens per pass that replace the sequences of `batch` that end.
double prefill_per_pass(double batch, const DynamoRequestShape& shape) {
  return std::ceil(batch * computed_prompt(shape) / output_of(shape));
}

}  // namespace

void DynamoAverage::add(double value) {
  if (values_.empty() && value <= 0.0) return;
  values_.push_back(value);
  if (values_.size() > DynamoPassTimes::kPassesMax) values_.pop_front();
}

double DynamoAverage::value() const {
  double sum = 0.0;
  for (const double value : values_) sum += value;
  return values_.empty() ? 0.0 : sum / static_cast<double>(values_.size());
}

void DynamoEngineModel::observe(const core::Iteration& pass) {
  const auto prompts = static_cast<double>(pass.prefill_requests);
  const auto prompt_tokens = static_cast<double>(pass.prefill_new_tokens);
  prompt_.add(prompts > 0.0 ? prompt_tokens / prompts : 0.0);
  if (pass.decode_sequences > 0)
    context_.add(static_cast<double>(pass.decode_context_tokens) / static_cast<double>(pass.decode_sequences));
  pass_prefill_requests_.add(prompts);
  pass_prefill_tokens_.add(prompt_tokens);
  times_.observe(pass);
}

std::optional<double> DynamoEngineModel::chunks(double tokens, double requests, double decode_sequences,
                                                double decode_tokens, const DynamoEngineLimits& limits) const {
  const auto chunk = static_cast<double>(limits.max_batched_tokens);
  const double full = std::floor(tokens / chunk), tail = tokens - full * chunk;
  double seconds = 0.0;
  for (const auto& [count, size] : {std::pair{full, chunk}, std::pair{1.0, tail}}) {
    if (count <= 0.0 || size <= 0.0) continue;
    const auto one = times_.estimate({requests, size, 0.0, decode_sequences, decode_tokens});
    if (!one) return std::nullopt;
    seconds += count * *one;
  }
  return seconds;
}

std::optional<double> DynamoEngineModel::ttft(const DynamoEngineLoad& load, const DynamoEngineLimits& limits,
                                              double hit_ratio, const DynamoScale& scale) const {
  double tokens = load.queued_tokens * scale.queue, requests = load.queued_requests * scale.queue;
  if (prompt_.value() > 0.0) {
    tokens += prompt_.value();
    requests += 1.0;
  }
  tokens = std::ceil(tokens * uncached(hit_ratio));
  if (role_ == Role::kPrefill) return chunks(tokens, std::max(1.0, std::ceil(requests)), 0.0, 0.0, limits);
  double decode_tokens = load.decode_tokens, sequences = load.decode_sequences;
  if (scale.preempted && load.preempted_tokens > 0.0) {
    decode_tokens += load.preempted_tokens;
    sequences += std::ceil(load.preempted_tokens / std::max(1.0, context_.value()));
  }
  return chunks(tokens, std::max(1.0, std::ceil(requests)), std::ceil(sequences * scale.decode),
                std::ceil(decode_tokens * scale.decode), limits);
}

std::optional<double> DynamoEngineModel::itl(const DynamoEngineLoad& load, const DynamoScale& scale) const {
  double tokens = load.decode_tokens, sequences = load.decode_sequences;
  if (load.preempted_tokens > 0.0) {
    tokens += load.preempted_tokens;
    sequences += std::ceil(load.preempted_tokens / std::max(1.0, context_.value()));
  }
  if (scale.queue_decodes) {
    tokens += load.queued_tokens;
    sequences += load.queued_requests;
  }
  tokens *= scale.decode;
  sequences *= scale.decode;
  if (context_.value() > 0.0) {
    tokens += context_.value();
    sequences += 1.0;
  }
  ForwardPass pass{0.0, 0.0, 0.0, std::ceil(sequences), std::ceil(tokens)};
  if (role_ == Role::kAggregated) {
    pass.prefill_tokens = std::ceil(pass_prefill_tokens_.value());
    pass.prefill_requests = std::ceil(pass_prefill_requests_.value());
    if (pass.prefill_tokens > 0.0) pass.prefill_requests = std::max(1.0, pass.prefill_requests);
  }
  return times_.estimate(pass);
}

std::uint64_t DynamoEngineModel::batch_max(const DynamoRequestShape& shape, const DynamoEngineLimits& limits) const {
  if (role_ == Role::kPrefill) {
    const auto prompt = static_cast<std::uint64_t>(computed_prompt(shape));
    return prompt > limits.max_batched_tokens ? 1 : std::min(limits.max_sequences, limits.max_batched_tokens / prompt);
  }
  const auto by_kv = static_cast<std::uint64_t>(static_cast<double>(limits.kv_tokens) / context_of(shape));
  const std::uint64_t most = std::min(limits.max_sequences, by_kv);
  if (role_ == Role::kDecode) return most;
  return std::min(most, limits.max_batched_tokens > 1 ? limits.max_batched_tokens - 1 : 0);
}

// Whether the prompts that replace ended sequences fit into a pass beside the decodes.
bool DynamoEngineModel::balanced(double batch, const DynamoRequestShape& shape,
                                 const DynamoEngineLimits& limits) const {
  if (role_ != Role::kAggregated) return true;
  const double room = static_cast<double>(limits.max_batched_tokens) - batch;
  return room > 0.0 && prefill_per_pass(batch, shape) <= room;
}

std::optional<DynamoEngineCapacity> DynamoEngineModel::at_batch(double batch, const DynamoRequestShape& shape,
                                                                const DynamoEngineLimits& limits) const {
  DynamoEngineCapacity capacity;
  if (role_ == Role::kPrefill) {
    const auto ttft = chunks(computed_prompt(shape) * batch, 1.0, 0.0, 0.0, limits);
    if (!ttft) return std::nullopt;
    capacity.ttft_s = *ttft;
    capacity.requests_per_s = *ttft > 0.0 ? batch / *ttft : 0.0;
    return capacity;
  }
  const double tokens = batch * context_of(shape);
  const double prefill = role_ == Role::kAggregated ? prefill_per_pass(batch, shape) : 0.0;
  const auto itl = times_.estimate({prefill > 0.0 ? 1.0 : 0.0, prefill, 0.0, batch, tokens});
  if (!itl) return std::nullopt;
  capacity.itl_s = *itl;
  capacity.requests_per_s = *itl > 0.0 ? batch / (output_of(shape) * *itl) : 0.0;
  if (role_ == Role::kDecode) return capacity;
  const auto ttft = chunks(prefill + computed_prompt(shape), 1.0, batch, tokens, limits);
  if (!ttft) return std::nullopt;
  capacity.ttft_s = *ttft;
  return capacity;
}

std::optional<DynamoEngineCapacity> DynamoEngineModel::capacity(const DynamoRequestShape& shape,
                                                                const DynamoEngineLimits& limits, double ttft_slo_s,
                                                                double itl_slo_s) const {
  if (shape.input_tokens <= 0.0 || (role_ != Role::kPrefill && shape.output_tokens <= 0.0)) return std::nullopt;
  const std::uint64_t most = batch_max(shape, limits);
  const std::uint64_t sizes = std::min(most, kBatchSizesMax);
  std::optional<DynamoEngineCapacity> best;
  for (std::uint64_t i = 0; i < sizes; ++i) {
    // All sizes, or as many evenly spaced ones.
    const std::uint64_t size = most <= kBatchSizesMax ? i + 1 : 1 + i * (most - 1) / (kBatchSizesMax - 1);
    const auto batch = static_cast<double>(size);
    if (!balanced(batch, shape, limits)) continue;
    auto candidate = at_batch(batch, shape, limits);
    if (!candidate) return std::nullopt;
    if (candidate->requests_per_s <= 0.0) continue;
    candidate->within_slo = (role_ == Role::kDecode || candidate->ttft_s <= ttft_slo_s) &&
                            (role_ == Role::kPrefill || candidate->itl_s <= itl_slo_s);
    const bool better =
        !best || (candidate->within_slo != best->within_slo ? candidate->within_slo
                                                            : candidate->requests_per_s > best->requests_per_s);
    if (better) best = candidate;
  }
  return best;
}

}  // namespace penstock::planner
