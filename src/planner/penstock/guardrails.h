// The last stage before a target is acted on: it clamps whatever a policy proposes, and each clamp has a name.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "core/state_archive.h"
#include "core/time.h"
#include "planner/policy.h"

namespace penstock::planner {

struct GuardrailOptions {
  double growth_per_minute = 3.0;                          // of what the target was a minute ago …
  std::uint32_t growth_least = 4;                          // … but so many more replicas are always allowed
  core::Duration stabilisation = std::chrono::minutes{5};  // a pool shrinks to the most that was proposed meanwhile
  core::Duration shrink_step = std::chrono::minutes{1};    // from one shrinking to the next
  double shrink_share = 0.34;                              // of the target that one step may take, at least one replica
  double kv_hot = 0.75;                                    // mean KV usage at which nothing shrinks
  core::Duration queue_age = std::chrono::milliseconds{500};  // of the oldest request at which nothing shrinks
  core::Duration sample_age = std::chrono::seconds{30};       // an older sample is as good as none
  // 0..100: the share, in percent, of its capacity that no replica may pass once those that are left carry all. A higher
  // one shrinks sooner; at 0 only an idle pool shrinks.
  std::uint32_t sensitivity = 80;
  std::uint64_t prefill_queue_tokens = 32768;  // queued prompt tokens that count as the capacity of a prefill replica
  std::uint32_t minimum_endpoints = 1;         // shrinking leaves so many ready replicas, whatever min_replicas says
  core::Duration manual_hold = std::chrono::minutes{10};      // after somebody else set the target
  core::Duration failure_cooldown = std::chrono::minutes{2};  // after a failed action; doubles with each in a row …
  core::Duration failure_cooldown_max = std::chrono::minutes{16};  // … up to this
  // GPUs of all pools together; none: no limit. Only FleetGuardrails looks at it.
  std::optional<std::uint64_t> gpu_budget;
};

// Holds, whatever is proposed:
//  - the target stays within the pool's bounds, above all else;
//  - it grows by at most the allowed factor a minute;
//  - it shrinks only after the stabilisation window, a step at a time, and not while replicas start or drain, telemetry is
//    missing or old, the KV cache is hot, a queue waits, or requests fail;
//  - it shrinks only as far as the replicas that are left can carry the load, and enough of them are ready;
//  - nothing changes for a while after somebody else set the target, nor after an action failed, nor while the clock goes
//    back. Windows are measured in time that passed steadily: a jump neither ends nor prolongs them.
//
// An action failed when PoolObservation::actions_failed_total rises. A replica that becomes ready, or a shrinking that was
// carried out, ends the cooldown and its doubling. Somebody else set the target when it is neither what was decided last
// nor what it was before, so that a change that the platform refused or has not carried out yet is not taken for one.
//
// Remembers one pool's past; one instance for each. A tick is O(replicas).
class Guardrails {
 public:
  explicit Guardrails(const GuardrailOptions& options = {}) : options_(options) {}

  // `proposal.target` is the proposal. Evidence and reason are kept; the target and limited_by may change.
  [[nodiscard]] PoolDecision apply(core::Instant now, const signals::PoolObservation& pool, PoolDecision proposal);

  // In place of apply() at a tick at which the clock jumped: keeps the target, and what is remembered keeps its age.
  [[nodiscard]] PoolDecision hold_over_jump(core::Instant now, const signals::PoolObservation& pool,
                                            PoolDecision proposal);

  // What came of the decision that apply() returned, where a later stage lowered its growth.
  void revise(std::uint32_t target) { asked_ = target; }

  void archive(core::StateArchive& state) {
    state("guardrails", last_now_, time_, wishes_, targets_, shrunk_at_, failed_at_, failed_total_, actions_failed_);
    state.values_of(ready_, was_ready_, failures_in_a_row_, cooldown_until_, manual_until_, asked_, seen_);
    restored_ = state.reading();
  }

 private:
  struct Entry {
    core::Instant at;
    std::uint32_t replicas = 0;
    void archive(core::StateArchive& state) { state.values_of(at, replicas); }
  };
  class Clamp;

  void note_time(core::Instant now);
  void note_failures(const signals::PoolObservation& pool);
  void note_ready(const signals::PoolObservation& pool);
  void note_manual_change(std::uint32_t current);
  void record_proposal(std::uint32_t current, std::uint32_t proposal);
  void limit_shrinking(core::Instant now, const signals::PoolObservation& pool, Clamp& clamp) const;
  void limit_growth(std::uint32_t current, Clamp& clamp) const;
  // Why this pool must not shrink now, or kNone.
  [[nodiscard]] Limit shrink_hold(core::Instant now, const signals::PoolObservation& pool) const;
  // Replicas that the load needs, `most` at most.
  [[nodiscard]] std::uint32_t fewest_that_carry(const signals::PoolObservation& pool, std::uint32_t most) const;
  [[nodiscard]] PoolDecision finish(const signals::PoolObservation& pool, PoolDecision proposal, Clamp clamp);

  GuardrailOptions options_;
  std::optional<core::Instant> last_now_;
  core::Instant time_{};       // steady time since the first tick; what is remembered is dated by it
  std::deque<Entry> wishes_;   // within the stabilisation window
  std::deque<Entry> targets_;  // of the last minute
  std::optional<core::Instant> shrunk_at_, failed_at_;
  std::uint64_t failed_total_ = 0;
  std::optional<std::uint64_t> actions_failed_;   // none before the first tick
  std::vector<std::uint32_t> ready_, was_ready_;  // ids in order, of this tick and of the last
  std::uint32_t failures_in_a_row_ = 0;
  core::Instant cooldown_until_{}, manual_until_{};
  std::optional<std::uint32_t> asked_;  // the last decision
  std::uint32_t seen_ = 0;              // the target when it was made
  bool restored_ = false;               // and nothing was decided since
};

}  // namespace penstock::planner
