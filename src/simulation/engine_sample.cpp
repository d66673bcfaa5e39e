#include "simulation/engine_sample.h"

namespace penstock::simulation {
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
  sample.oldest_queued_age = state.oldest_waiting == core::kNever ? core::Duration{} : now - state.oldest_waiting;
  sample.batch_merge_efficiency = state.batch_merge_efficiency;
  sample.iterations = state.iterations;
  sample.last_iteration = state.last_iteration;
  return sample;
}

}  // namespace penstock::simulation
