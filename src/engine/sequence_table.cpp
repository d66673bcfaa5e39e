#include "engine/sequence_table.h"

#include "core/result.h"

namespace penstock::engine {

SequenceTable::Slot SequenceTable::add(const EngineRequest& request, core::Instant now) {
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
  sequence.phase = SequencePhase::kWaiting;
  sequence.admitted_before = false;
  sequence.generated = 0;
  sequence.computed = 0;
  sequence.private_blocks = 0;
  sequence.cached_tokens = 0;
  sequence.submitted = now;
  sequence.last_token_at = now;
  sequence.serial = next_serial_++;
  slots_[request.request] = slot;
  return slot;
}

SequenceTable::Slot SequenceTable::find(std::uint32_t request) const {
  const auto found = slots_.find(request);
  return found == slots_.end() ? kNoSlot : found->second;
}

void SequenceTable::forget_request(Slot slot) {
  const auto found = slots_.find(sequences_[slot].request.request);
  if (found != slots_.end() && found->second == slot) slots_.erase(found);
}

std::vector<OpenRequest> SequenceTable::open_requests(std::uint64_t step) const {
  std::vector<OpenRequest> open;
  for (const Sequence& sequence : sequences_)
    if (sequence.phase != SequencePhase::kFree && sequence.request.request != kNoRequest)
      open.push_back({sequence.request.request, sequence.generated_at(step)});
  return open;
}

void SequenceTable::link_running(Slot slot) {
  Sequence& sequence = sequences_[slot];
  sequence.previous = last_running_;
  sequence.next = kNoSlot;
  (last_running_ == kNoSlot ? first_running_ : sequences_[last_running_].next) = slot;
  last_running_ = slot;
  ++running_;
}

void SequenceTable::unlink_running(Slot slot) {
  Sequence& sequence = sequences_[slot];
  (sequence.previous == kNoSlot ? first_running_ : sequences_[sequence.previous].next) = sequence.next;
  (sequence.next == kNoSlot ? last_running_ : sequences_[sequence.next].previous) = sequence.previous;
  --running_;
}

SequenceTable::Slot SequenceTable::pick_victim(PreemptionOrder order, std::uint64_t step) const {
  PENSTOCK_ASSERT(last_running_ != kNoSlot, "KV runs short only while sequences run");
  if (order == PreemptionOrder::kLifo) return last_running_;
  Slot victim = last_running_;
  for (Slot slot = sequences_[last_running_].previous; slot != kNoSlot; slot = sequences_[slot].previous) {
    const Sequence& candidate = sequences_[slot];
    const Sequence& best = sequences_[victim];
    const bool better = order == PreemptionOrder::kLeastProgress
                            ? candidate.generated_at(step) < best.generated_at(step)
                            : candidate.request.priority < best.request.priority;
    if (better) victim = slot;
  }
  return victim;
}

}  // namespace penstock::engine
