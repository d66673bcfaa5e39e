// A model of one inference engine: continuous batching over paged KV blocks, iteration by iteration.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "core/time.h"
#include "engine/config.h"
#include "engine/decode_reserve.h"
#include "engine/decoding_sequences.h"
#include "engine/iteration_run.h"
#include "engine/iteration_timer.h"
#include "engine/iteration_totals.h"
#include "engine/kv_cache.h"
#include "engine/prefill_share.h"
#include "engine/sequence_blocks.h"
#include "engine/sequence_table.h"
#include "engine/step_time.h"
#include "engine/token_gaps.h"
#include "engine/waiting_queue.h"

namespace penstock::engine {

enum class EngineEventKind : std::uint8_t {
  kFirstToken,  // The prompt is computed and the first token is generated.
  kToken,       // One more token is generated; only with follow_tokens().
  kCompleted,   // The last token is generated.
};

struct EngineEvent {
  EngineEventKind kind;
  std::uint32_t request;
  core::Instant at;
  std::uint32_t cached_tokens;  // Prompt tokens that were cached at the first admission.
  core::Instant admitted_at;    // Time at which the request was first scheduled.
};

// The most tokens of prompt and output together that the engine can ever serve.
[[nodiscard]] std::uint64_t context_tokens(const EngineConfig& config);

// Returns true if the engine can ever serve the request: prompt and output fit into the KV cache of one attention rank,
// and without chunked prefill the prompt fits into one iteration.
[[nodiscard]] bool can_fit(const EngineConfig& config, const EngineRequest& request);

[[nodiscard]] inline EngineEvent event_of(EngineEventKind kind, const Sequence& sequence, core::Instant at) {
  return {kind, sequence.request.request, at, sequence.cached_tokens, sequence.admitted_at};
}

struct EngineTotals {
  std::uint64_t prompt = 0, prefix_hit = 0, generated = 0;  // Tokens.
  std::uint64_t completed = 0, preemptions = 0;
  std::uint64_t filled_slots = 0;  // Sequence slots that were filled, over all steps.
};

// Totals of the engine since its start, and its current state.
struct EngineState {
  std::uint32_t waiting = 0, running = 0;
  std::uint32_t preempted = 0;  // Waiting sequences that were preempted.
  std::uint64_t waiting_prefill_tokens = 0, inflight_prefill_tokens = 0;
  double waiting_prefill_squared = 0.0;  // Sum of the squares of the waiting prompts' lengths.
  std::uint64_t decoding_kv_tokens = 0, preempted_kv_tokens = 0;
  std::uint64_t active_kv_tokens = 0, total_kv_tokens = 0;
  std::uint64_t prompt_tokens = 0, prefix_hit_tokens = 0, generated_tokens = 0;
  std::uint64_t completed = 0, preemptions = 0, evictions = 0, steps = 0;
  double batch_merge_efficiency = 0.0;  // Mean share of sequence slots that were filled, over all steps.
  core::Instant oldest_waiting = core::kNever;
  IterationTotals iterations;               // Totals of the steps above.
  std::optional<Iteration> last_iteration;  // Empty before the first one has ended.
};

// Advances from one iteration boundary to the next. Consecutive iterations that change nothing but lengths are merged
// into one run and cost O(1) together; the number of generated tokens of a sequence is derived from the step at which
// it joined.
//
// The caller keeps the time: it calls submit() in order of time, and advance(next_event()) before it submits anything
// later. Arrivals at the time of a boundary precede the boundary. Not thread-safe.
class Engine {
 public:
  Engine(const EngineConfig& config, const StepTimeModel& step_time, bool merge_steps = true);
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // The request must satisfy can_fit().
  void submit(const EngineRequest& request, core::Instant now);
  [[nodiscard]] core::Instant next_event() const { return next_event_; }  // kNever while the engine is idle.
  // Processes the boundary at next_event() == now and appends its events.
  void advance(core::Instant now, std::vector<EngineEvent>& events);

  // Cancels a request that has not completed. A running sequence ends with the current iteration, which then frees its
  // blocks; no further event is reported. A held request is released. Returns the number of tokens that were generated
  // until now, or nothing if the request has completed, is unknown or was cancelled before. O(open requests).
  std::optional<std::uint32_t> cancel(std::uint32_t request, core::Instant now);

  // Reports each token as an event and disables the merging of iterations, for callers that stream tokens. Must be
  // called before the first submit().
  void follow_tokens() { follow_ = true, merge_steps_ = false; }
  // With follow_tokens(), returns the iteration that the last advance() completed. A time of 0 means that none
  // completed.
  [[nodiscard]] const IterationDetail& last_iteration() const { return last_iteration_; }

  // token_gaps_ms() stays empty, for callers that do not read it.
  void skip_token_gaps() { token_gaps_.skip(); }
  // token_gaps_ms() has the gaps from now on.
  void clear_token_gaps() { token_gaps_.clear(); }

  // With hold_prefilled(), a completed request keeps its blocks until release_held(), because its KV is being
  // transferred. It may change while the engine is idle.
  void hold_prefilled(bool holds = true) { hold_ = holds; }
  void release_held(std::uint32_t request, core::Instant now);

  // Fault injection. slow_down() multiplies the time of every iteration that begins later. After hang(), no iteration
  // begins before `until`; the one in progress ends. Requests are accepted all the same.
  void slow_down(double factor, core::Instant now) {
    if (in_pass_) cut_run(now);
    slow_factor_ = factor;
  }
  void hang(core::Instant until, core::Instant now) {
    if (in_pass_) cut_run(now);
    hung_until_ = std::max(hung_until_, until);
  }

  [[nodiscard]] EngineState state(core::Instant now) const;
  [[nodiscard]] bool idle() const { return sequences_.running() == 0 && waiting_.empty() && held_.empty(); }
  [[nodiscard]] std::size_t open_count() const { return sequences_.running() + waiting_.size(); }  // Not completed.
  // Returns the requests that were neither completed nor cancelled, in a deterministic order, with the tokens of the
  // steps that have ended.
  [[nodiscard]] std::vector<OpenRequest> open_requests(core::Instant now) const {
    return sequences_.open_requests(decoding_.step() + steps_done(now));
  }
  [[nodiscard]] const core::QuantileSketch& token_gaps_ms() const { return token_gaps_.milliseconds(); }
  [[nodiscard]] KvCache& cache() { return cache_; }
  [[nodiscard]] const EngineConfig& config() const { return config_; }

 private:
  using Slot = SequenceTable::Slot;
  using Phase = SequencePhase;
  static constexpr Slot kNoSlot = SequenceTable::kNoSlot;

  [[nodiscard]] std::uint64_t steps_done(core::Instant now) const;  // Of the run in progress.
  void begin_pass(core::Instant now);
  bool compute_prompts(core::Instant now);       // With kPrefillFirst; returns whether there are any.
  bool grow_decodes();                           // Returns whether a sequence was preempted.
  bool continue_prefill(std::uint64_t& budget);  // Returns whether a sequence was preempted.
  void admit_waiting(core::Instant now, std::uint64_t& budget);
  bool admit(Slot slot, core::Instant now, std::uint64_t& budget);
  void schedule_chunk(Sequence& sequence, std::uint32_t tokens);
  void plan_run(bool preempted);
  void cut_run(core::Instant now);
  void end_pass(core::Instant now, std::vector<EngineEvent>& events);
  void end_decodes(core::Instant now);
  void abort_cancelled();
  void emit_joined(core::Instant at, std::vector<EngineEvent>& events);
  void complete(Slot slot, core::Instant at, std::vector<EngineEvent>& events);
  void preempt(Slot slot);

  const EngineConfig config_;
  bool merge_steps_, hold_ = false, follow_ = false, in_pass_ = false;

  KvCache cache_;
  WaitingQueue waiting_;
  SequenceTable sequences_;
  SequenceBlocks blocks_;
  DecodingSequences decoding_;
  IterationTimer timer_;
  PrefillShare prefill_share_;
  std::vector<Slot> held_;
  Slot prefilling_ = kNoSlot;  // The sequence whose prompt is computed in part. It was admitted last.
  std::vector<Slot> joining_;  // Their first token of this admission comes at the end of this pass.
  // Their last token came before the previous pass ended: their KV was computed elsewhere, or they waited for prompts.
  std::vector<Slot> arriving_;
  std::vector<Slot> cancelled_;  // They leave at the end of this pass.
  bool grown_ = false;           // The blocks for this pass's tokens of decoding sequences are allocated.
  bool decode_waits_ = false;    // This pass computes only prompts, by kPrefillFirst.
  DecodeReserve reserve_;

  PrefillBacklog backlog_;
  std::uint64_t preempted_kv_tokens_ = 0;
  IterationDetail last_iteration_;
  core::Instant pass_start_;
  IterationRun run_, done_run_;  // The current and the last completed run.
  core::Instant next_event_ = core::kNever;
  double slow_factor_ = 1.0;  // Of iterations that begin later.
  core::Instant hung_until_;  // No iteration begins earlier.

  EngineTotals totals_;
  IterationTotals iterations_;  // Of the steps done.
  TokenGaps token_gaps_;
};

}  // namespace penstock::engine
