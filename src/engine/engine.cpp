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
      step_time_(step_time),
      merge_steps_(merge_steps),
      cache_(config.kv_blocks, config.prefix_caching),
      waiting_(config.queue_order, config.fairness_bound),
      crossings_(config.block_tokens),
      crossing_bits_((config.block_tokens + 63) / 64),
      prefill_share_(config.prefill_share) {
  PENSTOCK_ASSERT(config.block_tokens > 0, "a block holds tokens");
  PENSTOCK_ASSERT(config.max_batched_tokens >= config.max_sequences, "every running sequence gets its token each step");
}

// ---- what a sequence is made of ------------------------------------------------------------------------------------

std::uint32_t Engine::blocks_for(std::uint64_t tokens) const {
  return static_cast<std::uint32_t>((tokens + config_.block_tokens - 1) / config_.block_tokens);
}

BlockKey Engine::key_of(const Sequence& sequence, std::uint32_t block) const {
  const auto& ids = sequence.request.block_ids;
  return block < ids.size() ? BlockKey{ids[block]} : private_key(sequence.request.request, block);
}

void Engine::count_waiting_prefill(const EngineRequest& request, int sign) {
  const double tokens = request.input_tokens;
  waiting_prefill_tokens_ += static_cast<std::uint64_t>(sign * std::int64_t{request.input_tokens});
  waiting_prefill_squared_ += sign * tokens * tokens;
}

// A last block that is not full has no identity yet, whatever the workload calls it.
std::uint32_t Engine::shareable_blocks(const Sequence& sequence) const {
  if (!config_.prefix_caching) return 0;
  return std::min(static_cast<std::uint32_t>(sequence.request.block_ids.size()),
                  sequence.request.input_tokens / config_.block_tokens);
}

std::uint32_t Engine::generated_of(const Sequence& sequence, std::uint64_t step) const {
  if (sequence.phase != Phase::kDecode) return sequence.generated;
  return sequence.generated + static_cast<std::uint32_t>(step - sequence.joined_step);
}

// ---- in and out ----------------------------------------------------------------------------------------------------

void Engine::submit(const EngineRequest& request, core::Instant now) {
  PENSTOCK_ASSERT(can_fit(config_, request), "the caller asks can_fit first");
  Slot slot = 0;
  if (free_slots_.empty()) {
    slot = static_cast<Slot>(sequences_.size());
    sequences_.emplace_back();
  } else {
    slot = free_slots_.back();
    free_slots_.pop_back();
  }
  Sequence& sequence = sequences_[slot];
  sequence.request = request;
  sequence.phase = Phase::kWaiting;
  sequence.admitted_before = false;
  sequence.generated = 0;
  sequence.computed = 0;
  sequence.private_blocks = 0;
  sequence.cached_tokens = 0;
  sequence.submitted = now;
  sequence.last_token_at = now;
  sequence.serial = next_serial_++;
  const bool queue_was_empty = waiting_.empty();
  waiting_.push({slot, sequence.serial, now, request.input_tokens, request.priority});
  if (!request.prefilled) count_waiting_prefill(request, +1);

  if (in_pass_) {
    // Whoever waits already goes first, and is not admitted before somebody ends: then the end of the run is soon enough.
    if (running_ < config_.max_sequences && (queue_was_empty || waiting_.reorders())) cut_run(now);
  } else if (waiting_prefill_tokens_ >= config_.max_batched_tokens || request.prefilled) {
    next_event_ = now;
  } else if (next_event_ == core::kNever) {
    next_event_ = now + config_.queue_delay;
  }
}

void Engine::advance(core::Instant now, std::vector<EngineEvent>& events) {
  PENSTOCK_ASSERT(now == next_event_, "an engine advances from boundary to boundary");
  last_iteration_.time = {};
  if (in_pass_) end_pass(now, events);
  begin_pass(now);
}

void Engine::release_held(std::uint32_t request, core::Instant now) {
  const auto found =
      std::find_if(held_.begin(), held_.end(), [&](Slot slot) { return sequences_[slot].request.request == request; });
  PENSTOCK_ASSERT(found != held_.end(), "only a held request is released");
  const Slot slot = *found;
  held_.erase(found);
  Sequence& sequence = sequences_[slot];
  const std::uint32_t tokens = sequence.request.input_tokens + sequence.request.output_tokens - 1;
  release_blocks(sequence, tokens, blocks_for(tokens), false);
  free_slot(slot);
  if (!in_pass_ && next_event_ == core::kNever && !waiting_.empty()) next_event_ = now;
}

bool Engine::cancel(std::uint32_t request, core::Instant now) {
  const auto found = std::find_if(sequences_.begin(), sequences_.end(), [&](const Sequence& sequence) {
    return sequence.phase != Phase::kFree && sequence.request.request == request;
  });
  if (found == sequences_.end()) return false;
  const auto slot = static_cast<Slot>(found - sequences_.begin());
  if (found->phase == Phase::kHeld) {
    release_held(request, now);
    return true;
  }
  if (in_pass_) cut_run(now);  // whoever waits may have room at the next boundary
  if (found->phase != Phase::kWaiting) {
    PENSTOCK_ASSERT(in_pass_, "what is running is in an iteration");
    if (std::find(cancelled_.begin(), cancelled_.end(), slot) == cancelled_.end()) cancelled_.push_back(slot);
    return true;
  }
  waiting_.remove(slot, found->serial);
  if (found->admitted_before)
    preempted_kv_tokens_ -= std::uint64_t{found->request.input_tokens} + found->generated;
  else if (!found->request.prefilled)
    count_waiting_prefill(found->request, -1);
  free_slot(slot);
  if (!in_pass_ && next_event_ == core::kNever && !waiting_.empty()) next_event_ = now;
  return true;
}

std::vector<std::uint32_t> Engine::open_requests() const {
  std::vector<std::uint32_t> open;
  for (const Sequence& sequence : sequences_)
    if (sequence.phase != Phase::kFree) open.push_back(sequence.request.request);
  return open;
}

EngineState Engine::state(core::Instant now) const {
  std::uint64_t done = 0;  // steps of the run under way that are over
  EngineState state;
  state.iterations = iterations_;
  if (in_pass_ && run_.steps > 1 && now > run_.start) {
    const DecodeRun part = measure(run_.shape, run_.steps, now - run_.start);
    const bool last_is_over = part.time <= now - run_.start;
    done = last_is_over ? part.steps : part.steps - 1;
    if (done > 0) add_run(state.iterations, run_.shape, done, last_is_over ? part.time : part.time - last_step(part));
  }
  state.waiting = static_cast<std::uint32_t>(waiting_.size());
  state.running = running_;
  state.preempted = waiting_.preempted();
  state.waiting_prefill_tokens = waiting_prefill_tokens_;
  state.waiting_prefill_squared = waiting_prefill_squared_;
  if (prefilling_ != kNoSlot)
    state.inflight_prefill_tokens = sequences_[prefilling_].known - sequences_[prefilling_].computed;
  state.decoding_kv_tokens = decode_context_ + decoding_ * done;
  state.preempted_kv_tokens = preempted_kv_tokens_;
  state.active_kv_tokens = std::uint64_t{cache_.active()} * config_.block_tokens;
  state.total_kv_tokens = std::uint64_t{cache_.total()} * config_.block_tokens;
  state.prompt_tokens = prompt_tokens_;
  state.prefix_hit_tokens = hit_tokens_;
  state.generated_tokens = generated_ + decoding_ * done;
  state.completed = completed_;
  state.preemptions = preemptions_;
  state.evictions = cache_.evictions();
  state.steps = step_ + done;
  if (step_ > 0) {
    state.batch_merge_efficiency =
        static_cast<double>(filled_slots_) / static_cast<double>(step_) / static_cast<double>(config_.max_sequences);
  }
  if (!waiting_.empty()) state.oldest_waiting = waiting_.oldest();
  return state;
}

// Of a run with the shape of the one under way.
core::Duration Engine::last_step(const DecodeRun& run) const {
  StepShape shape = run_.shape;
  shape.decode_context_tokens += std::uint64_t{shape.decode_sequences} * (run.steps - 1);
  return measure(shape, 1, core::Duration::max()).time;
}

// ---- preemption and bookkeeping --------------------------------------------------------------------------------------

void Engine::preempt(Slot slot) {
  Sequence& sequence = sequences_[slot];
  ++preemptions_;
  if (sequence.phase == Phase::kDecode) {
    leave_decode(sequence);
    const std::uint32_t generated = generated_of(sequence, step_);
    const std::uint64_t computed = std::uint64_t{sequence.request.input_tokens} + generated - 1;
    sequence.generated = generated;
    sequence.last_token_at = pass_start_;
    release_blocks(sequence, computed, blocks_for(computed + (grown_ ? 1 : 0)), true);
    std::erase(arriving_, slot);
  } else {
    const auto held = static_cast<std::uint32_t>(sequence.shared.size()) + sequence.private_blocks;
    release_blocks(sequence, sequence.computed, held, true);
    prefilling_ = kNoSlot;
  }
  sequence.phase = Phase::kWaiting;
  sequence.computed = 0;
  preempted_kv_tokens_ += std::uint64_t{sequence.request.input_tokens} + sequence.generated;
  unlink_running(slot);
  waiting_.push_preempted(
      {slot, sequence.serial, sequence.submitted, sequence.request.input_tokens, sequence.request.priority});
}

Engine::Slot Engine::pick_victim() const {
  PENSTOCK_ASSERT(last_running_ != kNoSlot, "KV runs short only while sequences run");
  if (config_.preemption_order == PreemptionOrder::kLifo) return last_running_;
  Slot victim = last_running_;
  for (Slot slot = sequences_[last_running_].previous; slot != kNoSlot; slot = sequences_[slot].previous) {
    const Sequence& candidate = sequences_[slot];
    const Sequence& best = sequences_[victim];
    const bool better = config_.preemption_order == PreemptionOrder::kLeastProgress
                            ? generated_of(candidate, step_) < generated_of(best, step_)
                            : candidate.request.priority < best.request.priority;
    if (better) victim = slot;
  }
  return victim;
}

void Engine::link_running(Slot slot) {
  Sequence& sequence = sequences_[slot];
  sequence.previous = last_running_;
  sequence.next = kNoSlot;
  (last_running_ == kNoSlot ? first_running_ : sequences_[last_running_].next) = slot;
  last_running_ = slot;
  ++running_;
}

void Engine::unlink_running(Slot slot) {
  Sequence& sequence = sequences_[slot];
  (sequence.previous == kNoSlot ? first_running_ : sequences_[sequence.previous].next) = sequence.next;
  (sequence.next == kNoSlot ? last_running_ : sequences_[sequence.next].previous) = sequence.previous;
  --running_;
}

void Engine::free_slot(Slot slot) {
  sequences_[slot].phase = Phase::kFree;
  free_slots_.push_back(slot);
}

// ---- separate budgets --------------------------------------------------------------------------------------------------

std::uint64_t Engine::prefill_budget() const {
  if (config_.prefill_share >= 1.0 || decoding_ == 0) return config_.max_batched_tokens;
  return std::max<std::uint64_t>(1, static_cast<std::uint64_t>(prefill_share_ * config_.max_batched_tokens));
}

// Every interval: if the prefill queue grew more than the decode queue and KV allows, prompts get a larger share of the
// token budget, else a smaller one.
void Engine::update_prefill_share(core::Instant now) {
  if (config_.prefill_share >= 1.0) return;
  while (now - share_updated_ >= config_.prefill_share_interval) {
    share_updated_ += config_.prefill_share_interval;
    const auto waiting = static_cast<std::int64_t>(waiting_.size());
    const auto decoding = static_cast<std::int64_t>(decoding_);
    const bool prefill_grows = waiting - share_waiting_ > decoding - share_decoding_;
    const double kv_usage = static_cast<double>(cache_.active()) / cache_.total();
    const bool more = prefill_grows && kv_usage < config_.prefill_share_kv_limit;
    prefill_share_ = std::clamp(prefill_share_ + (more ? config_.prefill_share_step : -config_.prefill_share_step),
                                config_.prefill_share_min, config_.prefill_share_max);
    share_waiting_ = waiting;
    share_decoding_ = decoding;
  }
}

}  // namespace penstock::engine
