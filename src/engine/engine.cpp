#include "engine/engine.h"

#include <algorithm>

#include "core/result.h"

namespace penstock::engine {

bool can_fit(const EngineConfig& config, const EngineRequest& request) {
  const std::uint64_t tokens = std::uint64_t{request.input_tokens} + request.output_tokens - 1;
  const std::uint64_t blocks = (tokens + config.block_tokens - 1) / config.block_tokens;
  if (blocks + config.watermark_blocks() > config.kv_blocks) return false;
  return config.chunked_prefill || tokens <= config.max_batched_tokens;  // all of it, after a preemption
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
    pause_ += hung_until_ - now;
    next_event_ = hung_until_;
    return;
  }
  begin_pass(now);
}

void Engine::release_held(std::uint32_t request, core::Instant now) {
  const auto found =
      std::find_if(held_.begin(), held_.end(), [&](Slot slot) { return sequences_[slot].request.request == request; });
  PENSTOCK_ASSERT(found != held_.end(), "only a held request is released");
  const Slot slot = *found;
  held_.erase(found);
  Sequence& sequence = sequences_[slot];
  blocks_.release_completed(sequence);
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
    sequence.request.request = SequenceTable::kNoRequest;
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

std::uint64_t Engine::steps_done(core::Instant now) const {
  IterationTotals ignored;
  return in_pass_ ? run_.add_done(timer_, now, ignored) : 0;
}

EngineState Engine::state(core::Instant now) const {
  EngineState state;
  state.iterations = iterations_;
  const std::uint64_t done = in_pass_ ? run_.add_done(timer_, now, state.iterations) : 0;
  state.waiting = static_cast<std::uint32_t>(waiting_.size());
  state.running = sequences_.running();
  state.preempted = waiting_.preempted();
  state.waiting_prefill_tokens = backlog_.tokens;
  state.waiting_prefill_squared = backlog_.squared;
  if (prefilling_ != kNoSlot)
    state.inflight_prefill_tokens = sequences_[prefilling_].known - sequences_[prefilling_].computed;
  state.decoding_kv_tokens = decoding_.context_tokens() + decoding_.size() * done;
  state.preempted_kv_tokens = preempted_kv_tokens_;
  state.active_kv_tokens = std::uint64_t{cache_.active()} * config_.block_tokens;
  state.total_kv_tokens = std::uint64_t{cache_.total()} * config_.block_tokens;
  state.prompt_tokens = prompt_tokens_;
  state.prefix_hit_tokens = hit_tokens_;
  state.generated_tokens = generated_ + decoding_.size() * done;
  state.completed = completed_;
  state.preemptions = preemptions_;
  state.evictions = cache_.evictions();
  state.steps = decoding_.step() + done;
  if (decoding_.step() > 0) {
    state.batch_merge_efficiency = static_cast<double>(filled_slots_) / static_cast<double>(decoding_.step()) /
                                   static_cast<double>(config_.max_sequences);
  }
  if (!waiting_.empty()) state.oldest_waiting = waiting_.oldest();
  return state;
}

// ---- preemption -----------------------------------------------------------------------------------------------------

void Engine::preempt(Slot slot) {
  Sequence& sequence = sequences_[slot];
  ++preemptions_;
  if (sequence.phase == Phase::kDecode) {
    decoding_.leave(sequence);
    const std::uint32_t generated = sequence.generated_at(decoding_.step());
    const std::uint64_t computed = std::uint64_t{sequence.request.input_tokens} + generated - 1;
    sequence.generated = generated;
    sequence.last_token_at = pass_start_;
    blocks_.release(sequence, computed, blocks_.blocks_for(computed + (grown_ ? 1 : 0)), true);
    std::erase(arriving_, slot);
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
