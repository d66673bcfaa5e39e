// The last stage before actuation: clamps every proposal of a policy, with a named reason for each clamp.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "core/state_archive.h"
#include "core/time.h"
#include "planner/penstock/running_load.h"
#include "planner/policy.h"

namespace penstock::planner {

struct GuardrailOptions {
  double growth_per_minute = 3.0;  // Maximum growth relative to the target one minute ago.
  std::uint32_t growth_least = 4;  // This number of additional replicas is always allowed.
  // A pool shrinks to the highest proposal of this window.
  core::Duration stabilisation = std::chrono::minutes{5};
  // Minimum time between two scale-downs. It counts from the last tick at which the fleet had not followed the first.
  core::Duration shrink_step = std::chrono::minutes{1};
  double shrink_share = 0.34;  // Share of the target that one scale-down may remove, at least one replica.
  double kv_hot = 0.75;        // Mean KV usage above which nothing shrinks.
  // Age of the oldest queued request above which nothing shrinks. Any queue of unknown age is too old.
  core::Duration queue_age = std::chrono::milliseconds{500};
  core::Duration sample_age = std::chrono::seconds{30};  // Older samples are ignored.
  // Range 0 to 100: the maximum utilisation, in percent, of the remaining replicas after a scale-down. A higher value
  // shrinks sooner; at 0 only an idle pool shrinks.
  std::uint32_t sensitivity = 80;
  // Queued prompt tokens that equal the capacity of a prefill replica.
  std::uint64_t prefill_queue_tokens = 32768;
  // Ready replicas that a scale-down must leave, regardless of min_replicas, unless the proposal is 0.
  std::uint32_t minimum_endpoints = 1;
  core::Duration manual_hold = std::chrono::minutes{10};  // Hold time after another actor set the target.
  // Cooldown after a failed action; doubles with each consecutive failure.
  core::Duration failure_cooldown = std::chrono::minutes{2};
  core::Duration failure_cooldown_max = std::chrono::minutes{16};  // Upper limit of the cooldown.
  // GPUs of all pools together; empty means no limit. Only FleetGuardrails uses it.
  std::optional<std::uint64_t> gpu_budget;
};

// Invariants for every proposal:
//  - The target stays within the pool's bounds; this takes precedence.
//  - The target grows by at most the allowed factor per minute.
//  - The target shrinks only after the stabilisation window, one step at a time, and not while replicas start or drain,
// telemetry of a replica is missing or old, the KV cache is hot, a queue waits, or requests fail. A proposal of 0 for a
// pool with min_replicas 0 waits for no window, since it has one of its own.
//  - The target shrinks only as far as the remaining replicas can serve the load and enough of them are ready.
//  - An aggregated pool with engines that report no KV usage shrinks by the number of their running requests instead,
// and only if no request waited for the whole stabilisation window (RunningLoad).
//  - Nothing changes for a while after another actor set the target, after a failed action, or while the clock runs
// backwards. Windows are measured in steadily passed time: a clock jump neither ends nor extends them.
//
// An action failed if PoolObservation::actions_failed_total increases. A replica that becomes ready, or a completed
// scale-down, ends the cooldown and its doubling. After a failed action that only shrinks the pool
// (PoolObservation::shrinks_failed_total) it does not shrink for `failure_cooldown`, and may grow. Another actor set
// the target if it is neither the last decision nor the value before it, so that a change that the platform refused or
// has not applied yet is not mistaken for one.
//
// One instance per pool, because it stores the pool's history. A tick is O(replicas).
class Guardrails {
 public:
  explicit Guardrails(const GuardrailOptions& options = {}) : options_(options) {}

  // `proposal.target` is the proposal. Evidence and reason are kept; target and limited_by may change.
  [[nodiscard]] PoolDecision apply(core::Instant now, const signals::PoolObservation& pool, PoolDecision proposal);

  // Replaces apply() in a tick with a clock jump: keeps the target and the age of stored values.
  [[nodiscard]] PoolDecision hold_over_jump(core::Instant now, const signals::PoolObservation& pool,
                                            PoolDecision proposal);

  // Reports the decision that was made from the result of apply() if a later stage lowered its growth.
  void revise(std::uint32_t target) { last_target_ = target; }

  // Returns the fewest replicas that may stay when others leave for another pool that needs them. Windows and the
  // shrink rate do not apply, because the fleet does not shrink; all that protects the requests of this pool does. Is
  // called after apply() in the same tick.
  [[nodiscard]] std::uint32_t fewest_after_switch(core::Instant now, const signals::PoolObservation& pool) const;

  void archive(core::StateArchive& state) {
    state("guardrails", last_now_, time_, proposals_, targets_, shrunk_at_, failed_at_, failed_total_, actions_failed_);
    state.values_of(ready_, was_ready_, failures_in_a_row_, cooldown_until_, manual_until_, last_target_,
                    last_current_);
    running_.archive(state);
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
  // Returns the reason why this pool must not shrink now, or kNone. Draining replicas are a reason unless others take
  // the role of another pool.
  [[nodiscard]] Limit shrink_hold(core::Instant now, const signals::PoolObservation& pool, bool switches = false) const;
  // Replicas that the load requires, at most `most`.
  [[nodiscard]] std::uint32_t fewest_that_carry(const signals::PoolObservation& pool, std::uint32_t most) const;
  [[nodiscard]] PoolDecision finish(const signals::PoolObservation& pool, PoolDecision proposal, Clamp clamp);

  GuardrailOptions options_;
  std::optional<core::Instant> last_now_;
  core::Instant time_{};         // Steady time since the first tick, which dates stored values.
  std::deque<Entry> proposals_;  // Proposals within the stabilisation window.
  std::deque<Entry> targets_;    // Targets of the last minute.
  std::optional<core::Instant> shrunk_at_, failed_at_;
  std::uint64_t failed_total_ = 0;
  std::optional<std::uint64_t> actions_failed_;  // Empty before the first tick.
  std::optional<std::uint64_t> shrinks_failed_;  // As above; each process begins anew.
  core::Instant shrink_cooldown_until_{};
  std::vector<std::uint32_t> ready_, was_ready_;  // Sorted ids of this tick and the previous one.
  std::uint32_t failures_in_a_row_ = 0;
  core::Instant cooldown_until_{}, manual_until_{};
  RunningLoad running_;
  std::optional<std::uint32_t> last_target_;  // The last decision.
  std::uint32_t last_current_ = 0;            // The target at the time of that decision.
  bool restored_ = false;                     // No decision was made since the state was restored.
};

}  // namespace penstock::planner
