#include "engine/engine.h"

#include <algorithm>

#include "core/result.h"

namespace penstock::engine {

namespace {

double share_of(std::uint64_t part, std::uint64_t whole) {
  return whole == 0 ? 0.0 : static_cast<double>(part) / static_cast<double>(whole);
}

void add_queue(const WaitingQueue& waiting, const PrefillBacklog& backlog, EngineState& state) {
  state.waiting = static_cast<std::uint32_t>(waiting.size());
  state.preempted = waiting.preempted();
  state.waiting_prefill_tokens = backlog.tokens;
  state.waiting_prefill_squared = backlog.squared;
  if (!waiting.empty()) state.oldest_waiting = waiting.oldest();
}

void add_cache(const KvCache& cache, std::uint32_t block_tokens, EngineState& state) {
  state.active_kv_tokens = std::uint64_t{cache.active()} * block_tokens;
  state.total_kv_tokens = std::uint64_t{cache.total()} * block_tokens;
  state.evictions = cache.evictions();
}

void add_totals(const EngineTotals& totals, EngineState& state) {
  state.prompt_tokens = totals.prompt;
  state.prefix_hit_tokens = totals.prefix_hit;
  state.completed = totals.completed;
  state.preemptions = totals.preemptions;
}

}  // namespace

std::uint64_t context_tokens(const EngineConfig& config) {
  const std::uint32_t usable = config.kv_blocks - std::min(config.kv_blocks, config.watermark_blocks());
  const std::uint64_t blocks = std::min(usable, config.kv_blocks / config.attention_ranks);
  const std::uint64_t tokens = blocks * config.block_tokens;
  // Without chunks all of it is one iteration, after a preemption.
  return (config.chunked_prefill ? tokens : std::min<std::uint64_t>(tokens, config.max_batched_tokens)) + 1;
}

bool can_fit(const EngineConfig& config, const EngineRequest& request) {
  return std::uint64_t{request.input_tokens} + request.output_tokens <= context_tokens(config);
}

Engine::Engine(const EngineConfig& config, const StepTimeModel& step_time, bool merge_steps)
    : config_(config),
      merge_steps_(merge_steps),
      cache_(config.kv_blocks, config.prefix_caching),
      waiting_(config.queue_order, config.fairness_bound),
      blocks_(config_, cache_),
      decoding_(sequences_, config.block_tokens),
      timer_(step_time),
      prefill_share_(config_) {
  PENSTOCK_ASSERT(config.block_tokens > 0, "a block holds tokens");
  PENSTOCK_ASSERT(config.max_batched_tokens >= config.max_sequences, "every running sequence gets its token each step");
}

// ---- in and out ----------------------------------------------------------------------------------------------------

void Engine::submit(const EngineRequest& request, core::Instant now) {
  PENSTOCK_ASSERT(can_fit(config_, request), "the caller asks can_fit first");
  const Slot slot = sequences_.add(request, now);
  const bool queue_was_empty = waiting_.empty();
  waiting_.push({slot, sequences_[slot].serial, now, request.input_tokens, request.priority});
  if (!request.prefilled) backlog_.add(request.input_tokens);

  if (in_pass_) {
    // Waiting requests precede this one and are admitted only when one ends, so the end of the run is early enough.
    if (sequences_.running() < config_.max_sequences && (queue_was_empty || waiting_.reorders())) cut_run(now);
  } else if (backlog_.tokens >= config_.max_batched_tokens || request.prefilled) {
    next_event_ = std::max(now, hung_until_);
  } else if (next_event_ == core::kNever) {
    next_event_ = std::max(now + config_.queue_delay, hung_until_);
  }
}

void Engine::advance(core::Instant now, std::vector<EngineEvent>& events) {
  PENSTOCK_ASSERT(now == next_event_, "an engine advances from boundary to boundary");
  last_iteration_.time = {};
  if (in_pass_) end_pass(now, events);
  if (now < hung_until_) {
    in_pass_ = false;
    token_gaps_.pause(hung_until_ - now);
    next_event_ = hung_until_;
    return;
  }
  begin_pass(now);
}

void Engine::release_held(std::uint32_t request, core::Instant now) {
  const Slot slot = sequences_.find(request);
  PENSTOCK_ASSERT(std::erase(held_, slot) == 1, "only a held request is released");
  blocks_.release_completed(sequences_[slot]);
  sequences_.free(slot);
  if (!in_pass_ && next_event_ == core::kNever && !waiting_.empty()) next_event_ = std::max(now, hung_until_);
}

std::optional<std::uint32_t> Engine::cancel(std::uint32_t request, core::Instant now) {
  const Slot slot = sequences_.find(request);
  if (slot == kNoSlot) return std::nullopt;
  Sequence& sequence = sequences_[slot];
  const std::uint32_t generated = sequence.generated_at(decoding_.step() + steps_done(now));
  if (sequence.phase == Phase::kHeld) {
    release_held(request, now);
    return generated;
  }
  if (in_pass_) cut_run(now);  // Waiting requests may have space at the next boundary.
  if (sequence.phase != Phase::kWaiting) {
    sequences_.cancel(slot);
    cancelled_.push_back(slot);
    // Between two iterations sequences run only while the engine hangs.
    if (!in_pass_) abort_cancelled();
    return generated;
  }
  waiting_.remove(slot, sequence.serial);
  if (sequence.admitted_before)
    preempted_kv_tokens_ -= std::uint64_t{sequence.request.input_tokens} + sequence.generated;
  else if (!sequence.request.prefilled)
    backlog_.remove(sequence.request.input_tokens);
  sequences_.free(slot);
  if (!in_pass_ && next_event_ == core::kNever && !waiting_.empty()) next_event_ = std::max(now, hung_until_);
  return generated;
}

std::uint64_t Engine::steps_done(core::Instant now) const { return in_pass_ ? run_.steps_done(timer_, now) : 0; }

EngineState Engine::state(core::Instant now) const {
  EngineState state;
  state.iterations = iterations_;
  add_queue(waiting_, backlog_, state);
  add_cache(cache_, config_.block_tokens, state);
  add_totals(totals_, state);
  const std::uint64_t done = in_pass_ ? run_.add_done(timer_, now, state.iterations) : 0;
  state.last_iteration = done > 0 ? run_.last_of(timer_, done) : done_run_.last_of(timer_, done_run_.steps);
  state.running = sequences_.running();
  if (prefilling_ != kNoSlot)
    state.inflight_prefill_tokens = sequences_[prefilling_].known - sequences_[prefilling_].computed;
  state.decoding_kv_tokens = decoding_.context_tokens() + decoding_.size() * done;
  state.preempted_kv_tokens = preempted_kv_tokens_;
  state.generated_tokens = totals_.generated + decoding_.size() * done;
  state.steps = state.iterations.steps();
  state.batch_merge_efficiency = share_of(totals_.filled_slots, iterations_.steps() * config_.max_sequences);
  return state;
}

// ---- preemption -----------------------------------------------------------------------------------------------------

void Engine::preempt(Slot slot) {
  Sequence& sequence = sequences_[slot];
  ++totals_.preemptions;
  if (sequence.phase == Phase::kDecode) {
    decoding_.leave(sequence);
    const std::uint32_t generated = sequence.generated_at(decoding_.step());
    const std::uint64_t computed = std::uint64_t{sequence.request.input_tokens} + generated - 1;
    sequence.generated = generated;
    blocks_.release(sequence, computed, blocks_.blocks_for(computed + (grown_ ? 1 : 0)), true);
    if (std::erase(arriving_, slot) == 0) sequence.last_token_at = pass_start_;
    const std::uint64_t others = decoding_.generated_tokens();
    reserve_.preempt(decoding_.size(), others, others + decoding_.remaining_tokens());
  } else {
    blocks_.release(sequence, sequence.computed, sequence.prompt_blocks(), true);
    prefilling_ = kNoSlot;
  }
  sequence.phase = Phase::kWaiting;
  sequence.computed = 0;
  preempted_kv_tokens_ += std::uint64_t{sequence.request.input_tokens} + sequence.generated;
  sequences_.unlink_running(slot);
  waiting_.push_preempted(
      {slot, sequence.serial, sequence.submitted, sequence.request.input_tokens, sequence.request.priority});
}

}  // namespace penstock::engine
