// One inference engine as a model: continuous batching over paged KV blocks, iteration by iteration.
#pragma once

#include <cstdint>
#include <queue>
#include <span>
#include <vector>

#include "core/sketch.h"
#include "core/time.h"
#include "engine/config.h"
#include "engine/iteration_totals.h"
#include "engine/kv_cache.h"
#include "engine/step_time.h"
#include "engine/waiting_queue.h"

namespace penstock::engine {

// A request as an engine sees it. The block ids must outlive it.
struct EngineRequest {
  std::uint32_t request = 0;        // the caller's number for it
  std::uint32_t input_tokens = 0;   // > 0
  std::uint32_t output_tokens = 0;  // > 0
  std::int8_t priority = 0;
  std::span<const std::uint32_t> block_ids;  // at the engine's block size; may go on over the output
  // Its KV arrived from a prefill engine together with its first token: it only decodes.
  bool prefilled = false;
};

enum class EngineEventKind : std::uint8_t {
  kFirstToken,  // the prompt is computed and the first token is out
  kToken,       // one more token is out; only with follow_tokens()
  kCompleted,   // the last token is out
};

struct EngineEvent {
  EngineEventKind kind;
  std::uint32_t request;
  core::Instant at;
  std::uint32_t cached_tokens;  // of the prompt, found in the cache at its first admission
  core::Instant admitted_at;    // when it was first scheduled: before, it waited
};

// Whether an engine can ever serve the request: prompt and output fit into the KV cache, and without chunked prefill the
// prompt into one iteration.
[[nodiscard]] bool can_fit(const EngineConfig& config, const EngineRequest& request);

// One iteration that is over.
struct IterationDetail {
  core::Duration time{};
  StepShape shape;
  std::uint32_t decoded = 0;                 // of shape.decode_sequences, those that had their first token before
  std::uint64_t decoded_context_tokens = 0;  // Σ their lengths …
  double decoded_context_squared = 0.0;      // … and Σ of the squares
  std::uint64_t prompt_tokens = 0;           // Σ whole lengths of the prompts that the iteration computed of …
  double prompt_tokens_squared = 0.0;        // … and Σ of the squares
};

// What an engine did since it started, and what it holds now.
struct EngineState {
  std::uint32_t waiting = 0, running = 0;
  std::uint32_t preempted = 0;  // of the waiting: they decoded before
  std::uint64_t waiting_prefill_tokens = 0;
  double waiting_prefill_squared = 0.0;  // Σ of the squares of those prompts' lengths
  std::uint64_t inflight_prefill_tokens = 0;
  std::uint64_t decoding_kv_tokens = 0;
  std::uint64_t preempted_kv_tokens = 0;
  std::uint64_t active_kv_tokens = 0, total_kv_tokens = 0;
  std::uint64_t prompt_tokens = 0, prefix_hit_tokens = 0, generated_tokens = 0;
  std::uint64_t completed = 0, preemptions = 0, evictions = 0, steps = 0;
  double batch_merge_efficiency = 0.0;  // mean share of the sequence slots filled, over steps
  core::Instant oldest_waiting = core::kNever;
  IterationTotals iterations;  // of the steps counted above
};

// Advances from one boundary between iterations to the next. Iterations that change nothing but lengths are merged into
// one run and cost O(1) together; what a sequence has generated is derived from the step it joined at.
//
// The caller keeps time: submit() in time order, and advance(next_event()) before submitting anything later. Arrivals at
// the very time of a boundary come before it. Not thread-safe.
class Engine {
 public:
  Engine(const EngineConfig& config, const StepTimeModel& step_time, bool merge_steps = true);

  // The request can fit.
  void submit(const EngineRequest& request, core::Instant now);
  [[nodiscard]] core::Instant next_event() const { return next_event_; }  // kNever while idle
  // Carries out what is due at next_event() == now and appends what happened.
  void advance(core::Instant now, std::vector<EngineEvent>& events);

  // Gives up a request that has not completed: its client is gone. What runs ends with the iteration under way, and then
  // its blocks are free; no event of it comes any more. A held request is released. False: it has completed, or never
  // was. O(open requests).
  bool cancel(std::uint32_t request, core::Instant now);

  // From now on each token is an event, and iterations are no longer merged: for who hands tokens out as they come.
  // Before the first submit.
  void follow_tokens() {
    follow_ = true;
    merge_steps_ = false;
  }
  // With follow_tokens(), the iteration that the last advance() ended. A time of 0: it ended none.
  [[nodiscard]] const IterationDetail& last_iteration() const { return last_iteration_; }

  // With hold_prefilled, a completed request keeps its blocks until it is released: its KV is being moved.
  void hold_prefilled() { hold_ = true; }
  void release_held(std::uint32_t request, core::Instant now);

  // Every step takes this many times longer; a fault to inject. Before the first submit.
  void slow_down(double factor) { slow_factor_ = factor; }

  [[nodiscard]] EngineState state(core::Instant now) const;
  [[nodiscard]] bool idle() const { return running_ == 0 && waiting_.empty() && held_.empty(); }
  // Requests that have not completed, in no particular order of service but always the same one.
  [[nodiscard]] std::vector<std::uint32_t> open_requests() const;
  [[nodiscard]] const core::QuantileSketch& token_gaps_ms() const { return token_gaps_ms_; }
  [[nodiscard]] KvCache& cache() { return cache_; }
  [[nodiscard]] const EngineConfig& config() const { return config_; }

 private:
  using Slot = std::uint32_t;
  static constexpr Slot kNoSlot = UINT32_MAX;
  enum class Phase : std::uint8_t { kFree, kWaiting, kPrefill, kDecode, kHeld };

  struct Sequence {
    EngineRequest request;
    Phase phase = Phase::kFree;
    bool admitted_before = false;
    std::uint32_t generated = 0;       // when it was last touched; while it decodes, see generated_of
    std::uint32_t computed = 0;        // tokens in the cache; only while its prompt is being computed
    std::uint32_t known = 0;           // prompt, plus what it had generated when it was last admitted
    std::uint32_t private_blocks = 0;  // without those that decoding added
    std::uint32_t cached_tokens = 0;
    std::uint64_t joined_step = 0;  // its first token of this admission came out at the end of this step
    std::uint64_t finish_step = 0;
    core::Instant submitted;
    core::Instant admitted_at;    // the first time
    core::Instant last_token_at;  // of a preempted sequence
    std::uint64_t serial = 0;
    std::vector<KvCache::Node> shared;        // its leading blocks
    Slot previous = kNoSlot, next = kNoSlot;  // running sequences by admission
  };

  struct Finish {
    std::uint64_t step;
    Slot slot;
    bool operator>(const Finish& other) const { return step != other.step ? step > other.step : slot > other.slot; }
  };

  struct Run {  // iterations under way
    core::Instant start;
    StepShape shape;
    std::uint32_t steps = 0;
    core::Duration time{};
    bool mergeable = false;           // only decodes: may be cut at any boundary
    std::uint64_t prompt_tokens = 0;  // as in IterationDetail
    double prompt_tokens_squared = 0.0;
  };

  [[nodiscard]] BlockKey key_of(const Sequence& sequence, std::uint32_t block) const;
  [[nodiscard]] std::uint32_t shareable_blocks(const Sequence& sequence) const;
  [[nodiscard]] std::uint32_t generated_of(const Sequence& sequence, std::uint64_t step) const;
  [[nodiscard]] std::uint32_t blocks_for(std::uint64_t tokens) const;
  void count_waiting_prefill(const EngineRequest& request, int sign);

  void begin_pass(core::Instant now);
  bool grow_decodes();                           // true if something had to be preempted
  bool continue_prefill(std::uint64_t& budget);  // the same
  void admit_waiting(core::Instant now, std::uint64_t& budget);
  bool admit(Slot slot, core::Instant now, std::uint64_t& budget);
  void allocate_for(Sequence& sequence, std::uint32_t tokens);
  void schedule_chunk(Sequence& sequence, std::uint32_t tokens);
  [[nodiscard]] std::uint64_t prefill_budget() const;
  void update_prefill_share(core::Instant now);
  void plan_run(bool preempted);
  void cut_run(core::Instant now);
  void end_pass(core::Instant now, std::vector<EngineEvent>& events);
  void note_iteration();
  void abort_cancelled();
  void emit_tokens(core::Instant at, std::vector<EngineEvent>& events) const;
  void emit_joined(core::Instant at, std::vector<EngineEvent>& events);
  void enter_decode(Slot slot);
  void leave_decode(Sequence& sequence);
  void complete(Slot slot, core::Instant at, std::vector<EngineEvent>& events);
  void release_blocks(Sequence& sequence, std::uint64_t computed, std::uint32_t allocated, bool come_back);
  void preempt(Slot slot);
  [[nodiscard]] Slot pick_victim() const;
  void link_running(Slot slot);
  void unlink_running(Slot slot);
  void free_slot(Slot slot);
  [[nodiscard]] core::Duration scaled(core::Duration time) const;
  [[nodiscard]] DecodeRun measure(const StepShape& shape, std::uint32_t steps, core::Duration limit) const;
  [[nodiscard]] core::Duration last_step(const DecodeRun& run) const;
  [[nodiscard]] std::uint32_t crossing_class(const Sequence& sequence) const;
  void count_crossing(std::uint32_t crossing, int change);
  [[nodiscard]] std::uint32_t steps_to_crossing() const;

  EngineConfig config_;
  const StepTimeModel& step_time_;
  bool merge_steps_;
  bool hold_ = false;
  bool follow_ = false;
  double slow_factor_ = 1.0;

  KvCache cache_;
  WaitingQueue waiting_;
  std::vector<Sequence> sequences_;
  std::vector<Slot> free_slots_;
  std::vector<Slot> held_;
  Slot first_running_ = kNoSlot, last_running_ = kNoSlot;
  std::uint32_t running_ = 0, decoding_ = 0;
  Slot prefilling_ = kNoSlot;    // the one whose prompt is part computed; the last that was admitted
  std::vector<Slot> joining_;    // their first token of this admission comes at the end of this pass
  std::vector<Slot> arriving_;   // decode from this pass on with KV computed elsewhere
  std::vector<Slot> cancelled_;  // leave at the end of this pass
  bool grown_ = false;           // blocks for this pass's tokens of decoding sequences are allocated
  std::priority_queue<Finish, std::vector<Finish>, std::greater<>> finishes_;

  // Sequences that need a block more at step s are those in class s mod block_tokens.
  std::vector<std::uint32_t> crossings_;
  std::vector<std::uint64_t> crossing_bits_;

  std::uint64_t step_ = 0;            // steps done
  std::uint64_t decode_context_ = 0;  // Σ lengths of decoding sequences, as of step_
  std::uint64_t waiting_prefill_tokens_ = 0, preempted_kv_tokens_ = 0;
  double waiting_prefill_squared_ = 0.0;  // exact: whole numbers far below 2^53
  IterationDetail last_iteration_;
  std::uint64_t next_serial_ = 0;
  bool in_pass_ = false;
  core::Instant pass_start_;
  Run run_;
  core::Instant next_event_ = core::kNever;

  double prefill_share_ = 1.0;
  core::Instant share_updated_;
  std::int64_t share_waiting_ = 0, share_decoding_ = 0;

  std::uint64_t prompt_tokens_ = 0, hit_tokens_ = 0, generated_ = 0, completed_ = 0, preemptions_ = 0,
                filled_slots_ = 0;
  IterationTotals iterations_;  // of the steps done
  core::QuantileSketch token_gaps_ms_;
};

}  // namespace penstock::engine
