// Activity of a pool's engines in the last minute and in the long run: averages of gauges, and sums of counters that
// start again with every replica.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <vector>

#include "core/state_archive.h"
#include "core/time.h"
#include "signals/observation.h"

namespace penstock::planner {

// Returns true if the engine's figures contradict each other: requests run without a KV block, more KV is used than
// exists, or more prefix hits than prompt tokens are reported.
[[nodiscard]] bool contradicts_itself(const signals::EngineSample& sample);

struct EngineMinute {
  core::Duration length{};  // Time between the observations below; the counts cover this time.
  std::uint64_t prompt_tokens = 0, prefix_hit_tokens = 0, generation_tokens = 0;
  std::uint64_t completed = 0, preemptions = 0, evictions = 0;
  // Means over the observations and the replicas that reported at the time.
  double kv_usage = 0.0;  // Range 0 to 1.
  double running_per_replica = 0.0;
  double queued_per_replica = 0.0;
  double deferred_per_replica = 0.0;  // The part of the queue that does not wait for room; 0 if engines do not tell.
  double starting_share = 0.0;        // starting / (starting + ready).
  // Means over the observations in which an engine had a queue; 0 if none had.
  double kv_blocked_share = 0.0;  // Share of engines with a queue whose free KV is less than the next prompt needs.
  // Share of engines without room for a mean request in their KV cache, in observations in which requests waited in
  // front of the pool; 0 if none waited.
  double kv_full_share = 0.0;
  double idle_share =
      0.0;  // Share of engines with an empty queue and at most half the mean number of running requests.

  [[nodiscard]] double hit_share() const;                // Share of the prompt tokens; 0 without any.
  [[nodiscard]] double preemptions_per_request() const;  // Per completed request.
  [[nodiscard]] double per_minute(std::uint64_t count) const;
  // Mean number of prompt tokens computed in a decode step, which delay every token of that step.
  [[nodiscard]] double prefill_tokens_per_step() const;
  void archive(core::StateArchive& state) {
    state.values_of(length, prompt_tokens, prefix_hit_tokens, generation_tokens, completed, preemptions, evictions,
                    kv_usage, running_per_replica, queued_per_replica, deferred_per_replica, starting_share,
                    kv_blocked_share, kv_full_share, idle_share);
  }
};

// Receives every observation of one pool, in order of time. Cost is linear in the number of replicas.
class PoolHistory {
 public:
  void add(core::Instant now, const signals::PoolObservation& pool, core::Duration sample_age_max);

  [[nodiscard]] EngineMinute last_minute() const;
  // Share before the last minute, with a half-life of ten minutes. 0 without prompts.
  [[nodiscard]] double long_term_hit_share() const;
  [[nodiscard]] double long_term_prompt_tokens() const { return long_prompt_tokens_; }

  void archive(core::StateArchive& state) {
    state("pool_history", started_, ticks_, last_, long_prompt_tokens_, long_hit_tokens_);
  }

 private:
  struct Tick {
    core::Instant at;
    EngineMinute since_last;
    bool reported = false;  // The tick has means over replicas.
    bool queued = false;    // The tick has means over queues.
    bool unrouted = false;  // Requests waited in front of the pool.
    void archive(core::StateArchive& state) { state.values_of(at, since_last, reported, queued, unrouted); }
  };
  void add_counters(Tick& tick, core::Instant now, const signals::ReplicaObservation& replica);
  void forget(core::Instant now);

  bool started_ = false;
  std::deque<Tick> ticks_;                               // Ticks of the last minute.
  std::map<std::uint32_t, signals::EngineSample> last_;  // Keyed by replica.
  double long_prompt_tokens_ = 0.0, long_hit_tokens_ = 0.0;
};

}  // namespace penstock::planner
