#include "simulation/engine_sample.h"

namespace penstock::simulation {
namespace {

signals::IterationSums sums_of(const engine::IterationSums& counted) {
  signals::IterationSums sums;
  sums.steps = counted.steps;
  sums.busy = counted.busy;
  sums.decode_sequences = counted.decode_sequences;
  sums.decode_context_tokens = counted.decode_context_tokens;
  sums.active_kv_tokens = counted.active_kv_tokens;
  return sums;
}

signals::IterationTotals totals_of(const engine::IterationTotals& counted) {
  signals::IterationTotals totals;
  totals.prefill = sums_of(counted.prefill);
  totals.decode = sums_of(counted.decode);
  totals.prefill_requests = counted.prefill_requests;
  totals.prefill_new_tokens = counted.prefill_new_tokens;
  totals.prefill_new_tokens_squared = counted.prefill_new_tokens_squared;
  totals.prefill_context_tokens = counted.prefill_context_tokens;
  totals.prefill_attention_pairs = counted.prefill_attention_pairs;
  return totals;
}

}  // namespace

signals::EngineSample sample_of(const engine::EngineState& state, core::Instant now) {
  signals::EngineSample sample;
  sample.sampled_at = now;
  sample.queued_requests = state.waiting;
  sample.running_requests = state.running;
  sample.queued_prefill_tokens = state.waiting_prefill_tokens;
  sample.inflight_prefill_tokens = state.inflight_prefill_tokens;
  sample.scheduled_kv_tokens = state.decoding_kv_tokens;
  sample.queued_kv_tokens = state.preempted_kv_tokens;
  sample.kv_used_tokens = state.active_kv_tokens;
  sample.kv_capacity_tokens = state.total_kv_tokens;
  sample.prompt_tokens_total = state.prompt_tokens;
  sample.prefix_hit_tokens_total = state.prefix_hit_tokens;
  sample.generation_tokens_total = state.generated_tokens;
  sample.completed_total = state.completed;
  sample.preemptions_total = state.preemptions;
  sample.evictions_total = state.evictions;
  if (state.oldest_waiting != core::kNever) sample.oldest_queued_age = now - state.oldest_waiting;
  sample.batch_merge_efficiency = state.batch_merge_efficiency;
  sample.iterations = totals_of(state.iterations);
  return sample;
}

}  // namespace penstock::simulation
