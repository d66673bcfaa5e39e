// What one iteration does: grow, continue, admit; how long it and its like take; what comes out of it.
#include <algorithm>
#include <utility>

#include "core/result.h"
#include "engine/engine.h"

namespace penstock::engine {
namespace {

void emit_tokens(const SequenceTable& sequences, core::Instant at, std::vector<EngineEvent>& events) {
  for (auto slot = sequences.first_running(); slot != SequenceTable::kNoSlot; slot = sequences[slot].next) {
    const Sequence& sequence = sequences[slot];
    if (sequence.phase == SequencePhase::kDecode) events.push_back(event_of(EngineEventKind::kToken, sequence, at));
  }
}

}  // namespace

// ---- the start of an iteration --------------------------------------------------------------------------------------

void Engine::begin_pass(core::Instant now) {
  in_pass_ = false;
  next_event_ = core::kNever;
  pass_start_ = now;
  timer_.slow_down(slow_factor_);
  run_ = IterationRun{now};
  if (sequences_.running() == 0 && waiting_.empty()) return reserve_.reset();

  if (prefill_share_.active())
    prefill_share_.update(now, static_cast<std::int64_t>(waiting_.size()), decoding_.size(),
                          static_cast<double>(cache_.active()) / cache_.total());
  grown_ = false;
  decode_waits_ = config_.iteration_order == IterationOrder::kPrefillFirst && compute_prompts(now);
  if (decode_waits_) return plan_run(false);
  bool preempted = grow_decodes();
  grown_ = true;
  std::uint64_t budget =
      std::min<std::uint64_t>(config_.max_batched_tokens - decoding_.size(), prefill_share_.budget(decoding_.size()));
  if (prefilling_ != kNoSlot) preempted = continue_prefill(budget) || preempted;
  if (!preempted) admit_waiting(now, budget);
  plan_run(preempted);
}

bool Engine::compute_prompts(core::Instant now) {
  decode_waits_ = true;
  std::uint64_t budget = config_.max_batched_tokens;
  if (prefilling_ == kNoSlot || !continue_prefill(budget)) admit_waiting(now, budget);
  if (run_.shape.prefill_requests == 0) return false;
  if (!arriving_.empty()) return true;
  const core::Instant last_token_at = now - token_gaps_.take_pause();
  for (Slot slot = sequences_.first_running(); slot != kNoSlot; slot = sequences_[slot].next) {
    if (sequences_[slot].phase != Phase::kDecode) continue;
    sequences_[slot].last_token_at = last_token_at;
    arriving_.push_back(slot);
  }
  return true;
}

bool Engine::grow_decodes() {
  const std::uint32_t& needed = decoding_.blocks_of_next_step();
  bool preempted = false;
  while (needed > cache_.available()) {
    preempt(sequences_.pick_victim(config_.preemption_order, decoding_.step()));
    preempted = true;
  }
  cache_.allocate_private(needed);
  return preempted;
}

bool Engine::continue_prefill(std::uint64_t& budget) {
  const Slot slot = prefilling_;
  Sequence& sequence = sequences_[slot];
  const auto tokens = static_cast<std::uint32_t>(std::min<std::uint64_t>(sequence.known - sequence.computed, budget));
  if (tokens == 0) return false;
  bool preempted = false;
  const std::uint32_t held = sequence.prompt_blocks();
  while (blocks_.blocks_for(sequence.computed + tokens) - held > cache_.available()) {
    const Slot victim = sequences_.pick_victim(config_.preemption_order, decoding_.step());
    preempt(victim);
    preempted = true;
    if (victim == slot) return true;
  }
  prefilling_ = kNoSlot;
  schedule_chunk(sequence, tokens);
  budget -= tokens;
  return preempted;
}

void Engine::admit_waiting(core::Instant now, std::uint64_t& budget) {
  while (sequences_.running() < config_.max_sequences && !waiting_.empty()) {
    const Slot slot = waiting_.head(now).slot;
    if (!admit(slot, now, budget)) return;
  }
}

bool Engine::admit(Slot slot, core::Instant now, std::uint64_t& budget) {
  Sequence& sequence = sequences_[slot];
  const EngineRequest& request = sequence.request;
  const bool arrives = request.prefilled && !sequence.admitted_before;
  const bool prefill_first = config_.iteration_order == IterationOrder::kPrefillFirst;
  if (budget == 0 || (prefill_first && arrives == decode_waits_)) return false;

  sequence.known = request.input_tokens + sequence.generated;
  const AdmissionNeed need = blocks_.need_of(sequence, arrives);
  std::uint32_t kept = config_.watermark_blocks();
  if (prefill_first && sequences_.running() > 0)
    kept +=
        blocks_.blocks_for(reserve_.tokens(decoding_.remaining_tokens()) + request.output_tokens - sequence.generated);
  if (need.blocks + kept > cache_.available()) return false;
  const std::uint32_t cached = need.hits * config_.block_tokens;
  const std::uint32_t remaining = arrives ? 0 : sequence.known - cached;
  if (!config_.chunked_prefill && remaining > budget) return false;

  waiting_.pop_head(now);
  blocks_.acquire_prefix(sequence, need.hits);
  sequence.computed = cached;
  if (sequence.admitted_before) {
    preempted_kv_tokens_ -= sequence.known;
  } else {
    sequence.admitted_before = true;
    sequence.admitted_at = now;
    sequence.cached_tokens = arrives ? 0 : cached;
    if (!arrives) {
      backlog_.remove(request.input_tokens);
      totals_.prompt += request.input_tokens;
      totals_.prefix_hit += cached;
    }
  }
  sequences_.link_running(slot);

  if (arrives) {
    blocks_.allocate(sequence, request.input_tokens);
    sequence.generated = 1;
    sequence.joined_step = decoding_.step();
    arriving_.push_back(slot);
    decoding_.enter(slot);
    if (need.crosses) cache_.allocate_private(1);
    --budget;
    return true;
  }
  const auto tokens = static_cast<std::uint32_t>(std::min<std::uint64_t>(remaining, budget));
  sequence.phase = Phase::kPrefill;
  schedule_chunk(sequence, tokens);
  budget -= tokens;
  return true;
}

// The next `tokens` tokens of a prompt are computed in this iteration.
void Engine::schedule_chunk(Sequence& sequence, std::uint32_t tokens) {
  blocks_.allocate(sequence, sequence.computed + tokens);
  run_.add_chunk(sequence, tokens);
  sequence.computed += tokens;
  const Slot slot = sequences_.slot_of(sequence);
  if (sequence.computed >= sequence.known) {
    joining_.push_back(slot);
  } else {
    prefilling_ = slot;
  }
}

// ---- runs of iterations ---------------------------------------------------------------------------------------------

void Engine::plan_run(bool preempted) {
  StepShape& shape = run_.shape;
  if (!decode_waits_) run_.add_decodes(decoding_.size(), decoding_.context_tokens());
  shape.dynamo_13 = config_.iteration_rules == IterationRules::kDynamo13;
  for (const Slot slot : joining_) {
    if (shape.dynamo_13) run_.add_decodes(1, sequences_[slot].known);
  }
  shape.active_kv_tokens = std::uint64_t{cache_.active()} * config_.block_tokens;
  shape.total_kv_tokens = std::uint64_t{cache_.total()} * config_.block_tokens;
  if (shape.decode_sequences == 0 && shape.prefill_requests == 0) return;  // blocked by KV that is being moved away

  std::uint32_t steps = 1;
  core::Duration limit = core::Duration::max();
  run_.mergeable = merge_steps_ && shape.prefill_requests == 0 && arriving_.empty() && !preempted;
  // Where the order of the queue or the reserve moves with time, the head may be another or be admitted each time.
  const bool may_change = waiting_.reorders() || config_.iteration_order == IterationOrder::kPrefillFirst;
  if (may_change && !waiting_.empty() && sequences_.running() < config_.max_sequences) run_.mergeable = false;
  if (run_.mergeable) {
    steps = decoding_.steps_to_change();
    if (prefill_share_.active()) limit = prefill_share_.next_update() - run_.start;
  }
  run_.measure(timer_, steps, limit);
  in_pass_ = true;
  next_event_ = run_.end();
}

void Engine::cut_run(core::Instant now) {
  if (!run_.mergeable || run_.steps <= 1) return;
  run_.cut(timer_, now - run_.start);
  next_event_ = run_.end();
}

// ---- the end of an iteration ---------------------------------------------------------------------------------------

void Engine::end_pass(core::Instant now, std::vector<EngineEvent>& events) {
  if (!decode_waits_) end_decodes(now);
  done_run_ = run_.add_to(iterations_);
  totals_.filled_slots += joining_.size();
  if (follow_) last_iteration_ = run_.detail(sequences_, decoding_.step(), decode_waits_);
  if (!cancelled_.empty()) abort_cancelled();
  if (follow_ && !decode_waits_) emit_tokens(sequences_, now, events);

  for (Slot slot = decoding_.take_finished(); slot != kNoSlot; slot = decoding_.take_finished())
    complete(slot, now, events);
  emit_joined(now, events);
}

void Engine::end_decodes(core::Instant now) {
  token_gaps_.add_run(decoding_.size() - arriving_.size(), run_.steps, run_.time);
  for (const Slot slot : arriving_) token_gaps_.add(now - sequences_[slot].last_token_at);
  arriving_.clear();
  decoding_.advance(run_.steps);
  reserve_.decode(run_.steps);
  totals_.generated += std::uint64_t{decoding_.size()} * run_.steps;
  totals_.filled_slots += std::uint64_t{decoding_.size()} * run_.steps;
}

// The last iteration of cancelled requests is over; its tokens are dropped.
void Engine::abort_cancelled() {
  for (const Slot slot : cancelled_) {
    Sequence& sequence = sequences_[slot];
    if (sequence.phase == Phase::kDecode) {
      decoding_.leave(sequence);
      std::erase(arriving_, slot);
      const std::uint64_t computed =
          std::uint64_t{sequence.request.input_tokens} + sequence.generated_at(decoding_.step()) - 1;
      blocks_.release(sequence, computed, blocks_.blocks_for(computed), false);
    } else {
      blocks_.release(sequence, sequence.computed, sequence.prompt_blocks(), false);
      totals_.generated += std::erase(joining_, slot);
      if (prefilling_ == slot) prefilling_ = kNoSlot;
    }
    sequences_.unlink_running(slot);
    sequences_.free(slot);
  }
  cancelled_.clear();
}

void Engine::emit_joined(core::Instant at, std::vector<EngineEvent>& events) {
  for (const Slot slot : joining_) {
    Sequence& sequence = sequences_[slot];
    const EngineRequest& request = sequence.request;
    if (sequence.generated == 0) {
      events.push_back(event_of(EngineEventKind::kFirstToken, sequence, at));
    } else {
      token_gaps_.add(at - sequence.last_token_at);
      if (follow_) events.push_back(event_of(EngineEventKind::kToken, sequence, at));
    }
    ++totals_.generated;
    ++sequence.generated;
    sequence.joined_step = decoding_.step();
    if (sequence.generated == request.output_tokens) {
      complete(slot, at, events);
      continue;
    }
    decoding_.enter(slot);
    if (!decode_waits_) continue;
    sequence.last_token_at = at;
    arriving_.push_back(slot);
  }
  joining_.clear();
}

void Engine::complete(Slot slot, core::Instant at, std::vector<EngineEvent>& events) {
  Sequence& sequence = sequences_[slot];
  ++totals_.completed;
  events.push_back(event_of(EngineEventKind::kCompleted, sequence, at));
  sequences_.unlink_running(slot);
  if (hold_) {
    sequence.phase = Phase::kHeld;
    held_.push_back(slot);
    return;
  }
  blocks_.release_completed(sequence);
  sequences_.free(slot);
}

}  // namespace penstock::engine
