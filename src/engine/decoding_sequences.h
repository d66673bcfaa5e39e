// The sequences of one engine that decode: when each finishes, what they hold, and when they need blocks.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <queue>
#include <vector>

#include "engine/block_crossings.h"
#include "engine/sequence_table.h"

namespace penstock::engine {

// Every decoding sequence gets one token a step. The table must outlive it.
class DecodingSequences {
 public:
  using Slot = SequenceTable::Slot;

  DecodingSequences(SequenceTable& sequences, std::uint32_t block_tokens)
      : sequences_(sequences), crossings_(block_tokens) {}

  [[nodiscard]] std::uint32_t size() const { return size_; }
  // Σ lengths of the sequences, as of step().
  [[nodiscard]] std::uint64_t context_tokens() const { return context_tokens_; }
  // Steps done.
  [[nodiscard]] std::uint64_t step() const { return step_; }
  void advance(std::uint32_t steps) {
    step_ += steps;
    context_tokens_ += std::uint64_t{size_} * steps;
    remaining_tokens_ -= std::uint64_t{size_} * steps;
  }
  // Tokens that the sequences have generated, and those that they will still generate.
  [[nodiscard]] std::uint64_t generated_tokens() const { return context_tokens_ - input_tokens_; }
  [[nodiscard]] std::uint64_t remaining_tokens() const { return remaining_tokens_; }

  // The tokens of the sequence so far are known. All of them but the last one are in the cache.
  void enter(Slot slot) {
    Sequence& sequence = sequences_[slot];
    sequence.phase = SequencePhase::kDecode;
    sequence.finish_step = sequence.joined_step + sequence.request.output_tokens - sequence.generated;
    finishes_.push({sequence.finish_step, slot});
    ++size_;
    context_tokens_ += std::uint64_t{sequence.request.input_tokens} + sequence.generated;
    input_tokens_ += sequence.request.input_tokens;
    remaining_tokens_ += sequence.finish_step - step_;
    crossings_.add(sequence);
  }
  // The caller changes the phase afterwards.
  void leave(const Sequence& sequence) {
    --size_;
    context_tokens_ -= std::uint64_t{sequence.request.input_tokens} + sequence.generated_at(step_);
    input_tokens_ -= sequence.request.input_tokens;
    remaining_tokens_ -= sequence.finish_step - step_;
    crossings_.remove(sequence);
  }

  // Blocks that the next step needs. The reference follows what enters and leaves.
  [[nodiscard]] const std::uint32_t& blocks_of_next_step() const { return crossings_.at(step_ + 1); }
  // Steps until a sequence finishes or the next but one step needs a block; at least 1. Some sequence decodes.
  [[nodiscard]] std::uint32_t steps_to_change() {
    drop_stale_finishes();
    return static_cast<std::uint32_t>(
        std::min<std::uint64_t>(finishes_.top().step - step_, crossings_.steps_to_next(step_)));
  }
  // The next sequence whose last token is out by now, removed from here; SequenceTable::kNoSlot if there is none.
  [[nodiscard]] Slot take_finished() {
    drop_stale_finishes();
    if (finishes_.empty() || finishes_.top().step > step_) return SequenceTable::kNoSlot;
    const Slot slot = finishes_.top().slot;
    finishes_.pop();
    leave(sequences_[slot]);
    return slot;
  }

 private:
  struct Finish {
    std::uint64_t step;
    Slot slot;
    bool operator>(const Finish& other) const { return step != other.step ? step > other.step : slot > other.slot; }
  };

  // A sequence that was preempted or cancelled leaves its entry behind.
  void drop_stale_finishes() {
    while (!finishes_.empty() && (sequences_[finishes_.top().slot].phase != SequencePhase::kDecode ||
                                  sequences_[finishes_.top().slot].finish_step != finishes_.top().step))
      finishes_.pop();
  }

  SequenceTable& sequences_;
  BlockCrossings crossings_;
  std::priority_queue<Finish, std::vector<Finish>, std::greater<>> finishes_;
  std::uint64_t step_ = 0, context_tokens_ = 0, input_tokens_ = 0, remaining_tokens_ = 0;
  std::uint32_t size_ = 0;
};

}  // namespace penstock::engine
