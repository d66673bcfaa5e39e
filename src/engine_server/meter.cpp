#include "engine_server/meter.h"

#include <algorithm>
#include <utility>

namespace penstock::engine_server {
namespace {

constexpr double kHalfWindowSeconds = 30.0;

}  // namespace

void Meter::turn(core::Instant now) {
  if (seconds(now - turned_at_) < kHalfWindowSeconds) return;
  before_ = std::exchange(recent_, Recent{});
  turned_at_ = now;
}

void Meter::iteration(core::Instant ended_at, const engine::IterationDetail& detail) {
  turn(ended_at);
  const bool only_decodes = detail.shape.prefill_requests == 0;
  if (only_decodes) recent_.decode_ms.add(seconds(detail.time) * 1e3);
  figures_.iteration_tokens.add(static_cast<double>(detail.shape.prefill_new_tokens + detail.shape.decode_sequences));
}

void Meter::first_token(const RequestTimes& times) {
  figures_.ttft_s.add(seconds(times.first_token - times.arrived));
  if (times.admitted < times.submitted) return;  // Another engine computed the prompt.
  figures_.queue_s.add(seconds(times.admitted - times.submitted));
  figures_.prefill_s.add(seconds(times.first_token - times.admitted));
  recent_.prefill_ms.add(seconds(times.first_token - times.admitted) * 1e3);
}

void Meter::next_token(core::Duration gap) { figures_.itl_s.add(seconds(gap)); }

void Meter::finished(const RequestTimes& times, std::uint32_t prompt_tokens, std::uint32_t generated, bool by_length) {
  ++(by_length ? figures_.finished.length : figures_.finished.stop);
  const double decode = seconds(times.last_token - times.first_token);
  figures_.request_s.add(seconds(times.last_token - times.arrived));
  figures_.decode_s.add(decode);
  figures_.prompt_tokens.add(prompt_tokens);
  figures_.generation_tokens.add(generated);
  if (generated > 1) figures_.tpot_s.add(decode / (generated - 1));
}

telemetry::EngineFigures Meter::figures(const engine::EngineState& state, core::Instant now) const {
  telemetry::EngineFigures figures = figures_;
  telemetry::EngineSample& sample = figures.sample;
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
  sample.preemptions_total = state.preemptions;
  sample.evictions_total = state.evictions;
  sample.oldest_queued_age = core::Duration{};
  if (state.oldest_waiting != core::kNever)
    sample.oldest_queued_age = core::from_seconds(seconds(std::max(now - state.oldest_waiting, core::Duration{})));
  sample.batch_merge_efficiency = state.batch_merge_efficiency;
  sample.iterations = state.iterations;
  figures.preempted_requests = state.preempted;
  figures.prefix_query_tokens_total = state.prompt_tokens;
  core::QuantileSketch decode = recent_.decode_ms, prefill = recent_.prefill_ms;
  decode.merge(before_.decode_ms);
  prefill.merge(before_.prefill_ms);
  figures.decode_step_p95_ms = decode.quantile(0.95);
  figures.prefill_p95_ms = prefill.quantile(0.95);
  return figures;
}

}  // namespace penstock::engine_server
