// The iterations that an engine computes now: one, or several that change nothing but lengths.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>

#include "core/time.h"
#include "engine/iteration_timer.h"
#include "engine/iteration_totals.h"
#include "engine/sequence_table.h"

namespace penstock::engine {

// One completed iteration.
struct IterationDetail {
  core::Duration time{};
  StepShape shape;
  std::uint32_t decoded = 0;                 // Sequences that had their first token before.
  std::uint64_t decoded_context_tokens = 0;  // Σ of their lengths.
  double decoded_context_squared = 0.0;      // Σ of the squares of their lengths.
  std::uint64_t prompt_tokens = 0;           // Σ of the whole lengths of the prompts that it computed a part of.
  double prompt_tokens_squared = 0.0;        // Σ of the squares of these lengths.
};

struct IterationRun {
  core::Instant start;
  StepShape shape{};  // Of the first iteration.
  std::uint32_t steps = 0;
  core::Duration time{};
  bool mergeable = false;           // It has only decodes and may be cut at any boundary.
  std::uint64_t prompt_tokens = 0;  // As in IterationDetail.
  double prompt_tokens_squared = 0.0;
  // The time of the first 64 iterations, of the first 128 and so on. A part of a run is measured from the last mark
  // before its end, and not from the start of the run.
  static constexpr std::uint32_t kMarkSteps = 64, kMarks = 8;
  std::array<core::Duration, kMarks> marks{};
  std::uint32_t marked = 0;

  [[nodiscard]] core::Instant end() const { return start + time; }
  // The next `tokens` tokens of a prompt are computed.
  void add_chunk(const Sequence& sequence, std::uint32_t tokens) {
    ++shape.prefill_requests;
    shape.prefill_new_tokens += tokens;
    shape.prefill_context_tokens += sequence.computed;
    prompt_tokens += sequence.known;
    prompt_tokens_squared += static_cast<double>(sequence.known) * sequence.known;
    shape.prefill_attention_pairs += tokens * (sequence.computed + (tokens + 1) / 2.0);
  }
  // `sequences` of a total length of `context_tokens` decode.
  void add_decodes(std::uint32_t sequences, std::uint64_t context_tokens) {
    shape.decode_sequences += sequences;
    shape.decode_context_tokens += context_tokens;
  }
  // Sets the time of up to `steps_max` iterations, the last of them the first to end at or after `limit`.
  void measure(const IterationTimer& timer, std::uint32_t steps_max, core::Duration limit) {
    steps = 0;
    time = {};
    for (marked = 0;; marks[marked++] = time) {
      const std::uint32_t left = steps_max - steps;
      const DecodeRun part =
          timer.measure(shape_after(steps), marked < kMarks ? std::min(left, kMarkSteps) : left, limit - time);
      steps += part.steps;
      time += part.time;
      if (steps >= steps_max || time >= limit) return;
    }
  }
  // Ends the run with the first iteration that ends at or after `limit`.
  void cut(const IterationTimer& timer, core::Duration limit) {
    const DecodeRun part = until(timer, limit);
    steps = part.steps;
    time = part.time;
    marked = std::min(marked, (steps - 1) / kMarkSteps);
  }
  // The shape of the iteration after the first `done`.
  [[nodiscard]] StepShape shape_after(std::uint32_t done) const {
    StepShape later = shape;
    later.decode_context_tokens += std::uint64_t{done} * shape.decode_sequences;
    return later;
  }
  // The part of the run up to the first iteration that ends at or after `limit`.
  [[nodiscard]] DecodeRun until(const IterationTimer& timer, core::Duration limit) const {
    std::uint32_t mark = 0;
    while (mark < marked && marks[mark] < limit) ++mark;
    const std::uint32_t before = mark * kMarkSteps;
    const core::Duration before_time = mark > 0 ? marks[mark - 1] : core::Duration{};
    const DecodeRun rest = timer.measure(shape_after(before), steps - before, limit - before_time);
    return {before + rest.steps, before_time + rest.time};
  }
  // Iterations that are over at `now`, added to the totals. A run that was cut to its first iteration counts like the
  // run before the cut, so that what cancelled requests have generated is what the engine has.
  [[nodiscard]] std::uint64_t add_done(const IterationTimer& timer, core::Instant now, IterationTotals& totals) const {
    if ((steps <= 1 && !mergeable) || now <= start) return 0;
    const DecodeRun part = until(timer, now - start);
    const bool last_is_over = part.time <= now - start;
    const std::uint64_t done = last_is_over ? part.steps : part.steps - 1;
    if (done > 0)
      add_run(totals, shape, done, last_is_over ? part.time : part.time - timer.last_step(shape, part.steps));
    return done;
  }
  [[nodiscard]] std::uint64_t steps_done(const IterationTimer& timer, core::Instant now) const {
    IterationTotals ignored;
    return add_done(timer, now, ignored);
  }
  // Adds the completed run to the totals.
  const IterationRun& add_to(IterationTotals& totals) const {
    add_run(totals, shape, steps, time);
    return *this;
  }
  // The last of the first `done` iterations; empty for 0.
  [[nodiscard]] std::optional<Iteration> last_of(const IterationTimer& timer, std::uint64_t done) const {
    if (done == 0) return std::nullopt;
    Iteration last{time,
                   shape.prefill_requests,
                   shape.prefill_new_tokens,
                   shape.prefill_context_tokens,
                   shape.decode_sequences,
                   shape.decode_context_tokens + shape.decode_sequences * (done - 1)};
    if (steps > 1) last.time = timer.last_step(shape, static_cast<std::uint32_t>(done));
    return last;
  }
  // The run of one iteration as seen at its end, after which `step` steps are done. With `decode_waits` no sequence
  // decoded. O(running sequences).
  [[nodiscard]] IterationDetail detail(const SequenceTable& sequences, std::uint64_t step, bool decode_waits) const {
    IterationDetail detail{time, shape, 0, 0, 0.0, prompt_tokens, prompt_tokens_squared};
    if (decode_waits) return detail;
    for (auto slot = sequences.first_running(); slot != SequenceTable::kNoSlot; slot = sequences[slot].next) {
      const Sequence& sequence = sequences[slot];
      if (sequence.phase != SequencePhase::kDecode) continue;
      const std::uint64_t length = std::uint64_t{sequence.request.input_tokens} + sequence.generated_at(step) - 1;
      ++detail.decoded;
      detail.decoded_context_tokens += length;
      detail.decoded_context_squared += static_cast<double>(length) * static_cast<double>(length);
    }
    return detail;
  }
};

}  // namespace penstock::engine
