// What one iteration does: grow, continue, admit; how long it and its like take; what comes out of it.
#include <algorithm>
#include <bit>
#include <cmath>

#include "core/result.h"
#include "engine/engine.h"

namespace penstock::engine {

// ---- the start of an iteration ---------------------------------------------------------------------------------------

void Engine::begin_pass(core::Instant now) {
  in_pass_ = false;
  next_event_ = core::kNever;
  pass_start_ = now;
  run_ = Run{};
  run_.start = now;
  if (running_ == 0 && waiting_.empty()) return;

  update_prefill_share(now);
  grown_ = false;
  bool preempted = grow_decodes();
  grown_ = true;
  std::uint64_t budget = std::min<std::uint64_t>(config_.max_batched_tokens - decoding_, prefill_budget());
  if (prefilling_ != kNoSlot) preempted = continue_prefill(budget) || preempted;
  if (!preempted) admit_waiting(now, budget);
  plan_run(preempted);
}

bool Engine::grow_decodes() {
  const std::uint32_t& needed = crossings_[(step_ + 1) % config_.block_tokens];
  bool preempted = false;
  while (needed > cache_.available()) {
    preempt(pick_victim());
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
  const auto held = static_cast<std::uint32_t>(sequence.shared.size()) + sequence.private_blocks;
  while (blocks_for(sequence.computed + tokens) - held > cache_.available()) {
    const Slot victim = pick_victim();
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
  while (running_ < config_.max_sequences && !waiting_.empty()) {
    const Slot slot = waiting_.head(now).slot;
    if (!admit(slot, now, budget)) return;
  }
}

bool Engine::admit(Slot slot, core::Instant now, std::uint64_t& budget) {
  Sequence& sequence = sequences_[slot];
  const EngineRequest& request = sequence.request;
  const bool arrives = request.prefilled && !sequence.admitted_before;
  if (budget == 0) return false;

  sequence.known = request.input_tokens + sequence.generated;
  // One token at least is computed, or there is nothing to sample from; KV that was moved here is whole.
  std::uint32_t limit = arrives ? shareable_blocks(sequence) : (sequence.known - 1) / config_.block_tokens;
  if (!sequence.admitted_before) limit = std::min(limit, shareable_blocks(sequence));
  KvCache::Prefix prefix;
  if (config_.prefix_caching)
    prefix = cache_.find_prefix(limit, [&](std::uint32_t block) { return key_of(sequence, block); });

  const bool crosses = arrives && request.input_tokens % config_.block_tokens == 0;
  const std::uint32_t needed = blocks_for(sequence.known) - prefix.hits + prefix.inactive_hits + (crosses ? 1U : 0U);
  if (needed + config_.watermark_blocks() > cache_.available()) return false;
  const std::uint32_t cached = prefix.hits * config_.block_tokens;
  const std::uint32_t remaining = arrives ? 0 : sequence.known - cached;
  if (!config_.chunked_prefill && remaining > budget) return false;

  waiting_.pop_head(now);
  for (std::uint32_t block = 0; block < prefix.hits; ++block)
    sequence.shared.push_back(cache_.acquire(key_of(sequence, block)));
  sequence.computed = cached;
  if (sequence.admitted_before) {
    preempted_kv_tokens_ -= sequence.known;
  } else {
    sequence.admitted_before = true;
    sequence.admitted_at = now;
    sequence.cached_tokens = arrives ? 0 : cached;
    if (!arrives) {
      count_waiting_prefill(request, -1);
      prompt_tokens_ += request.input_tokens;
      hit_tokens_ += cached;
    }
  }
  link_running(slot);

  if (arrives) {
    allocate_for(sequence, request.input_tokens);
    sequence.generated = 1;
    sequence.joined_step = step_;
    arriving_.push_back(slot);
    enter_decode(slot);
    if (crosses) cache_.allocate_private(1);
    --budget;
    return true;
  }
  const auto tokens = static_cast<std::uint32_t>(std::min<std::uint64_t>(remaining, budget));
  sequence.phase = Phase::kPrefill;
  schedule_chunk(sequence, tokens);
  budget -= tokens;
  return true;
}

// Takes what is missing to hold the first `tokens` tokens. A block that will be full is findable from here on, like
// vLLM's, though a prompt cut in mid-block fills it only in the next iteration.
void Engine::allocate_for(Sequence& sequence, std::uint32_t tokens) {
  const std::uint32_t target = blocks_for(tokens);
  const std::uint32_t shareable = shareable_blocks(sequence);
  auto held = static_cast<std::uint32_t>(sequence.shared.size()) + sequence.private_blocks;
  for (; held < target && held < shareable && sequence.private_blocks == 0; ++held)
    sequence.shared.push_back(cache_.acquire(key_of(sequence, held)));
  if (held < target) {
    cache_.allocate_private(target - held);
    sequence.private_blocks += target - held;
  }
}

// The next `tokens` tokens of a prompt are computed in this iteration.
void Engine::schedule_chunk(Sequence& sequence, std::uint32_t tokens) {
  allocate_for(sequence, sequence.computed + tokens);
  StepShape& shape = run_.shape;
  ++shape.prefill_requests;
  shape.prefill_new_tokens += tokens;
  shape.prefill_context_tokens += sequence.computed;
  run_.prompt_tokens += sequence.known;
  run_.prompt_tokens_squared += static_cast<double>(sequence.known) * sequence.known;
  shape.prefill_attention_pairs += tokens * (sequence.computed + (tokens + 1) / 2.0);
  sequence.computed += tokens;
  const auto slot = static_cast<Slot>(&sequence - sequences_.data());
  if (sequence.computed >= sequence.known) {
    joining_.push_back(slot);
  } else {
    prefilling_ = slot;
  }
}

// ---- runs of iterations ----------------------------------------------------------------------------------------------

void Engine::plan_run(bool preempted) {
  StepShape& shape = run_.shape;
  shape.decode_sequences = decoding_ + static_cast<std::uint32_t>(joining_.size());
  shape.decode_context_tokens = decode_context_;
  for (const Slot slot : joining_) shape.decode_context_tokens += sequences_[slot].known;
  shape.active_kv_tokens = std::uint64_t{cache_.active()} * config_.block_tokens;
  shape.total_kv_tokens = std::uint64_t{cache_.total()} * config_.block_tokens;
  if (shape.decode_sequences == 0 && shape.prefill_requests == 0) return;  // blocked by KV that is being moved away

  std::uint32_t steps = 1;
  core::Duration limit = core::Duration::max();
  run_.mergeable = merge_steps_ && shape.prefill_requests == 0 && arriving_.empty() && !preempted;
  // Where the order of the queue moves with time, each boundary may have another head.
  if (waiting_.reorders() && !waiting_.empty() && running_ < config_.max_sequences) run_.mergeable = false;
  if (run_.mergeable) {
    while (sequences_[finishes_.top().slot].phase != Phase::kDecode ||
           sequences_[finishes_.top().slot].finish_step != finishes_.top().step)
      finishes_.pop();  // left by a preemption
    steps = static_cast<std::uint32_t>(std::min<std::uint64_t>(finishes_.top().step - step_, steps_to_crossing()));
    if (config_.prefill_share < 1.0) limit = share_updated_ + config_.prefill_share_interval - run_.start;
  }
  const DecodeRun run = measure(shape, steps, limit);
  run_.steps = run.steps;
  run_.time = run.time;
  in_pass_ = true;
  next_event_ = run_.start + run_.time;
}

void Engine::cut_run(core::Instant now) {
  if (!run_.mergeable || run_.steps <= 1) return;
  const DecodeRun run = measure(run_.shape, run_.steps, now - run_.start);
  run_.steps = run.steps;
  run_.time = run.time;
  next_event_ = run_.start + run_.time;
}

DecodeRun Engine::measure(const StepShape& shape, std::uint32_t steps, core::Duration limit) const {
  if (slow_factor_ == 1.0) {
    if (steps == 1) return {1, step_time_.step(shape)};
    return step_time_.decode_run(shape, steps, limit);
  }
  DecodeRun run;
  StepShape now = shape;
  do {
    run.time += scaled(step_time_.step(now));
    ++run.steps;
    now.decode_context_tokens += now.decode_sequences;
  } while (run.steps < steps && run.time < limit);
  return run;
}

core::Duration Engine::scaled(core::Duration time) const {
  return core::Duration{std::llround(static_cast<double>(time.count()) * slow_factor_)};
}

// Steps from the one that starts now to the one before the next that needs a block; at least 1.
std::uint32_t Engine::steps_to_crossing() const {
  const std::uint32_t size = config_.block_tokens;
  const auto from = static_cast<std::uint32_t>((step_ + 2) % size);  // the class of the step after this one
  const auto words = static_cast<std::uint32_t>(crossing_bits_.size());
  std::uint32_t word = from / 64;
  std::uint64_t bits = crossing_bits_[word] & (~std::uint64_t{0} << (from % 64));
  for (std::uint32_t looked = 0; looked <= words; ++looked) {
    if (bits != 0) {
      const std::uint32_t found = word * 64 + static_cast<std::uint32_t>(std::countr_zero(bits));
      return 1 + (found >= from ? found - from : found + size - from);
    }
    word = word + 1 == words ? 0 : word + 1;
    bits = crossing_bits_[word];
  }
  return UINT32_MAX;
}

// ---- the end of an iteration ---------------------------------------------------------------------------------------

void Engine::end_pass(core::Instant now, std::vector<EngineEvent>& events) {
  const std::uint32_t steps = run_.steps;
  const double gap_ms = core::to_milliseconds(run_.time) / steps;
  const auto arrived = static_cast<std::uint32_t>(arriving_.size());
  token_gaps_ms_.add(gap_ms, std::uint64_t{decoding_ - arrived} * steps);
  for (const Slot slot : arriving_) token_gaps_ms_.add(core::to_milliseconds(now - sequences_[slot].last_token_at));
  arriving_.clear();

  step_ += steps;
  add_run(iterations_, run_.shape, steps, run_.time);
  decode_context_ += std::uint64_t{decoding_} * steps;
  generated_ += std::uint64_t{decoding_} * steps;
  filled_slots_ += (std::uint64_t{decoding_} + joining_.size()) * steps;
  if (follow_) note_iteration();
  if (!cancelled_.empty()) abort_cancelled();
  if (follow_) emit_tokens(now, events);

  while (!finishes_.empty() && finishes_.top().step <= step_) {
    const Finish finish = finishes_.top();
    finishes_.pop();
    Sequence& sequence = sequences_[finish.slot];
    if (sequence.phase != Phase::kDecode || sequence.finish_step != finish.step) continue;
    leave_decode(sequence);
    complete(finish.slot, now, events);
  }
  emit_joined(now, events);
}

void Engine::note_iteration() {
  last_iteration_ = {run_.time, run_.shape, 0, 0, 0.0, run_.prompt_tokens, run_.prompt_tokens_squared};
  for (Slot slot = first_running_; slot != kNoSlot; slot = sequences_[slot].next) {
    const Sequence& sequence = sequences_[slot];
    if (sequence.phase != Phase::kDecode) continue;
    const std::uint64_t length = std::uint64_t{sequence.request.input_tokens} + generated_of(sequence, step_) - 1;
    ++last_iteration_.decoded;
    last_iteration_.decoded_context_tokens += length;
    last_iteration_.decoded_context_squared += static_cast<double>(length) * static_cast<double>(length);
  }
}

// Their last iteration is over: its tokens are computed, and nobody gets them.
void Engine::abort_cancelled() {
  for (const Slot slot : cancelled_) {
    Sequence& sequence = sequences_[slot];
    if (sequence.phase == Phase::kDecode) {
      leave_decode(sequence);
      const std::uint64_t computed = std::uint64_t{sequence.request.input_tokens} + generated_of(sequence, step_) - 1;
      release_blocks(sequence, computed, blocks_for(computed), false);
    } else {
      const auto held = static_cast<std::uint32_t>(sequence.shared.size()) + sequence.private_blocks;
      release_blocks(sequence, sequence.computed, held, false);
      generated_ += std::erase(joining_, slot);
      if (prefilling_ == slot) prefilling_ = kNoSlot;
    }
    unlink_running(slot);
    free_slot(slot);
  }
  cancelled_.clear();
}

void Engine::emit_tokens(core::Instant at, std::vector<EngineEvent>& events) const {
  for (Slot slot = first_running_; slot != kNoSlot; slot = sequences_[slot].next) {
    const Sequence& sequence = sequences_[slot];
    if (sequence.phase == Phase::kDecode)
      events.push_back(
          {EngineEventKind::kToken, sequence.request.request, at, sequence.cached_tokens, sequence.admitted_at});
  }
}

void Engine::emit_joined(core::Instant at, std::vector<EngineEvent>& events) {
  for (const Slot slot : joining_) {
    Sequence& sequence = sequences_[slot];
    const EngineRequest& request = sequence.request;
    if (sequence.generated == 0) {
      events.push_back(
          {EngineEventKind::kFirstToken, request.request, at, sequence.cached_tokens, sequence.admitted_at});
    } else {
      token_gaps_ms_.add(core::to_milliseconds(at - sequence.last_token_at));
      if (follow_)
        events.push_back({EngineEventKind::kToken, request.request, at, sequence.cached_tokens, sequence.admitted_at});
    }
    ++generated_;
    ++sequence.generated;
    sequence.joined_step = step_;
    if (sequence.generated == request.output_tokens) {
      complete(slot, at, events);
    } else {
      enter_decode(slot);
    }
  }
  joining_.clear();
}

// Its tokens so far are known; sequence.known of them are in the cache, the last one is not yet.
void Engine::enter_decode(Slot slot) {
  Sequence& sequence = sequences_[slot];
  sequence.phase = Phase::kDecode;
  sequence.finish_step = sequence.joined_step + sequence.request.output_tokens - sequence.generated;
  finishes_.push({sequence.finish_step, slot});
  ++decoding_;
  decode_context_ += std::uint64_t{sequence.request.input_tokens} + sequence.generated;
  count_crossing(crossing_class(sequence), +1);
}

void Engine::leave_decode(Sequence& sequence) {
  --decoding_;
  decode_context_ -= std::uint64_t{sequence.request.input_tokens} + generated_of(sequence, step_);
  count_crossing(crossing_class(sequence), -1);
}

// At step s > joined it computes token input + generated + (s − joined) − 1 (from 0), which begins a block when that is
// a multiple of the block size.
std::uint32_t Engine::crossing_class(const Sequence& sequence) const {
  const std::uint64_t size = config_.block_tokens;
  const std::uint64_t length = std::uint64_t{sequence.request.input_tokens} + sequence.generated - 1;
  return static_cast<std::uint32_t>((sequence.joined_step + 1 + size - length % size) % size);
}

void Engine::count_crossing(std::uint32_t crossing, int change) {
  crossings_[crossing] += static_cast<std::uint32_t>(change);
  const std::uint64_t bit = std::uint64_t{1} << (crossing % 64);
  if (crossings_[crossing] > 0) {
    crossing_bits_[crossing / 64] |= bit;
  } else {
    crossing_bits_[crossing / 64] &= ~bit;
  }
}

void Engine::complete(Slot slot, core::Instant at, std::vector<EngineEvent>& events) {
  Sequence& sequence = sequences_[slot];
  ++completed_;
  events.push_back(
      {EngineEventKind::kCompleted, sequence.request.request, at, sequence.cached_tokens, sequence.admitted_at});
  unlink_running(slot);
  if (hold_) {
    sequence.phase = Phase::kHeld;
    held_.push_back(slot);
    return;
  }
  // The last token is never computed.
  const std::uint32_t tokens = sequence.request.input_tokens + sequence.request.output_tokens - 1;
  release_blocks(sequence, tokens, blocks_for(tokens), false);
  free_slot(slot);
}

// Lets go of `allocated` blocks, of whose tokens `computed` are in the cache. The end of a sequence is given up first,
// its beginning, which others may share, last. A sequence that will come back can find all its full blocks again.
void Engine::release_blocks(Sequence& sequence, std::uint64_t computed, std::uint32_t allocated, bool come_back) {
  const auto shared = static_cast<std::uint32_t>(sequence.shared.size());
  const auto full = std::max(static_cast<std::uint32_t>(computed / config_.block_tokens), shared);
  const auto named =
      come_back ? full : std::clamp(static_cast<std::uint32_t>(sequence.request.block_ids.size()), shared, full);
  cache_.release_private(full - named, allocated - full);
  for (std::uint32_t block = named; block > shared; --block) cache_.release_private_as(key_of(sequence, block - 1));
  for (std::uint32_t block = shared; block > 0; --block) cache_.release(sequence.shared[block - 1]);
  sequence.shared.clear();
  sequence.private_blocks = 0;
}

}  // namespace penstock::engine
