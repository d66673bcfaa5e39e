#include <algorithm>

#include "telemetry/forward_pass.h"
#include "telemetry/saturated.h"

namespace penstock::telemetry {
namespace {

void add_sums(core::IterationSums& to, const core::IterationSums& from) {
  to.steps += from.steps;
  to.busy += from.busy;
  to.decode_sequences += from.decode_sequences;
  to.decode_context_tokens += from.decode_context_tokens;
  to.active_kv_tokens += from.active_kv_tokens;
}

void add_totals(core::IterationTotals& to, const core::IterationTotals& from) {
  add_sums(to.prefill, from.prefill);
  add_sums(to.decode, from.decode);
  to.prefill_requests += from.prefill_requests;
  to.prefill_new_tokens += from.prefill_new_tokens;
  to.prefill_new_tokens_squared += from.prefill_new_tokens_squared;
  to.prefill_context_tokens += from.prefill_context_tokens;
  to.prefill_attention_pairs += from.prefill_attention_pairs;
}

std::uint64_t active_tokens(const ForwardPassMetrics& message) {
  if (message.kv_used_tokens) return *message.kv_used_tokens;
  const ScheduledRequests& scheduled = message.scheduled_requests;
  const std::uint64_t tokens =
      scheduled.sum_decode_kv_tokens + scheduled.sum_prefill_kv_tokens + scheduled.sum_prefill_tokens;
  return std::min(tokens, message.kv_capacity_tokens.value_or(tokens));
}

void add_iteration(core::IterationTotals& totals, const ForwardPassMetrics& message) {
  const ScheduledRequests& scheduled = message.scheduled_requests;
  core::IterationSums& kind = scheduled.num_prefill_requests > 0 ? totals.prefill : totals.decode;
  ++kind.steps;
  kind.busy += core::from_seconds(message.wall_time);
  kind.decode_sequences += scheduled.num_decode_requests;
  kind.decode_context_tokens += scheduled.sum_decode_kv_tokens;
  kind.active_kv_tokens += active_tokens(message);
  if (scheduled.num_prefill_requests == 0) return;
  const auto fresh = static_cast<double>(scheduled.sum_prefill_tokens);
  const auto before = static_cast<double>(scheduled.sum_prefill_kv_tokens);
  const auto requests = static_cast<double>(scheduled.num_prefill_requests);
  totals.prefill_requests += scheduled.num_prefill_requests;
  totals.prefill_new_tokens += scheduled.sum_prefill_tokens;
  totals.prefill_new_tokens_squared += fresh * fresh;
  totals.prefill_context_tokens += scheduled.sum_prefill_kv_tokens;
  totals.prefill_attention_pairs += fresh * (before / requests + (fresh / requests + 1.0) / 2.0);
}

core::Iteration iteration_of(const ForwardPassMetrics& message) {
  const ScheduledRequests& scheduled = message.scheduled_requests;
  return {core::from_seconds(message.wall_time), scheduled.num_prefill_requests, scheduled.sum_prefill_tokens,
          scheduled.sum_prefill_kv_tokens,       scheduled.num_decode_requests,  scheduled.sum_decode_kv_tokens};
}

// The ranks of a worker compute one iteration together.
void join(std::optional<core::Iteration>& joint, const core::Iteration& rank) {
  if (!joint) joint.emplace();
  joint->time = std::max(joint->time, rank.time);
  joint->prefill_requests += rank.prefill_requests;
  joint->prefill_new_tokens += rank.prefill_new_tokens;
  joint->prefill_context_tokens += rank.prefill_context_tokens;
  joint->decode_sequences += rank.decode_sequences;
  joint->decode_context_tokens += rank.decode_context_tokens;
}

// Sums the last messages of all ranks.
struct Gauges {
  std::uint64_t queued = 0, running = 0;
  std::uint64_t queued_prefill_tokens = 0, queued_kv_tokens = 0;
  std::uint64_t inflight_prefill_tokens = 0, scheduled_kv_tokens = 0;
  std::uint64_t kv_used_tokens = 0, kv_capacity_tokens = 0;
  bool has_kv = true;
  core::Instant received_at = core::kNever;  // Time of the oldest message.
  core::IterationTotals iterations;
  std::optional<core::Iteration> last_iteration;

  void add(const ForwardPassTotals& rank) {
    const ScheduledRequests& scheduled = rank.last().scheduled_requests;
    const QueuedRequests& waiting = rank.last().queued_requests;
    queued += std::uint64_t{waiting.num_prefill_requests} + waiting.num_decode_requests;
    running += std::uint64_t{scheduled.num_prefill_requests} + scheduled.num_decode_requests;
    queued_prefill_tokens += waiting.sum_prefill_tokens;
    queued_kv_tokens += waiting.sum_decode_kv_tokens;
    inflight_prefill_tokens += scheduled.sum_prefill_tokens;
    scheduled_kv_tokens += scheduled.sum_decode_kv_tokens;
    has_kv = has_kv && rank.last().kv_used_tokens && rank.last().kv_capacity_tokens;
    kv_used_tokens += rank.last().kv_used_tokens.value_or(0);
    kv_capacity_tokens += rank.last().kv_capacity_tokens.value_or(0);
    received_at = std::min(received_at, rank.received_at());
    add_totals(iterations, rank.iterations());
    if (rank.last_iteration()) join(last_iteration, *rank.last_iteration());
  }
};

}  // namespace

void ForwardPassTotals::add(const ForwardPassMetrics& message, core::Instant received_at) {
  if (last_) {
    if (message.counter_id == last_->counter_id) return;
    if (message.counter_id < last_->counter_id) {
      ++restarts_;
      iterations_ = {};
      lost_ += message.counter_id;
    } else {
      lost_ += message.counter_id - last_->counter_id - 1;
    }
  }
  ++messages_;
  received_at_ = received_at;
  last_ = message;
  const ScheduledRequests& scheduled = message.scheduled_requests;
  // A message without a duration shows no speed; Dynamo sends such messages if it missed the scheduling time.
  if (message.wall_time > 0.0 && (scheduled.num_prefill_requests > 0 || scheduled.num_decode_requests > 0)) {
    add_iteration(iterations_, message);
    last_iteration_ = iteration_of(message);
  }
}

bool apply_forward_pass(std::span<const ForwardPassTotals> ranks, EngineSample& sample) {
  Gauges gauges;
  for (const ForwardPassTotals& rank : ranks)
    if (rank.has_messages()) gauges.add(rank);
  if (gauges.received_at == core::kNever) return false;
  sample.sampled_at =
      sample.sampled_at == core::kStart ? gauges.received_at : std::min(sample.sampled_at, gauges.received_at);
  sample.queued_requests = saturated(gauges.queued);
  sample.running_requests = saturated(gauges.running);
  sample.queued_prefill_tokens = gauges.queued_prefill_tokens;
  sample.queued_kv_tokens = gauges.queued_kv_tokens;
  sample.inflight_prefill_tokens = gauges.inflight_prefill_tokens;
  sample.scheduled_kv_tokens = gauges.scheduled_kv_tokens;
  if (gauges.queued == 0)
    sample.oldest_queued_age = core::Duration{};
  else if (sample.oldest_queued_age == core::Duration{})
    sample.oldest_queued_age.reset();  // The scrape saw an empty queue.
  if (gauges.has_kv) {
    sample.kv_used_tokens = gauges.kv_used_tokens;
    sample.kv_capacity_tokens = gauges.kv_capacity_tokens;
  }
  sample.iterations = gauges.iterations;
  sample.last_iteration = gauges.last_iteration;
  return true;
}

}  // namespace penstock::telemetry
