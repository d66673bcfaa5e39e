// The last stage before a target is acted on: it clamps whatever a policy proposes, and each clamp has a name.
#pragma once

#include <cstdint>
#include <deque>

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
};

// Holds, whatever is proposed:
//  - the target stays within the pool's bounds;
//  - it grows by at most the allowed factor a minute;
//  - it shrinks only after the stabilisation window, a step at a time, and not while replicas start or drain, telemetry is
//    missing or old, the KV cache is hot, a queue waits, or requests fail.
// Remembers one pool's past; one instance for each.
class Guardrails {
 public:
  explicit Guardrails(const GuardrailOptions& options = {}) : options_(options) {}

  // `proposal.target` is the wish. Evidence and reason are kept; the target and limited_by may change.
  [[nodiscard]] PoolDecision apply(core::Instant now, const signals::PoolObservation& pool, PoolDecision proposal);

 private:
  struct Entry {
    core::Instant at;
    std::uint32_t replicas;
  };
  // Why this pool must not shrink now, or kNone.
  [[nodiscard]] Limit shrink_hold(core::Instant now, const signals::PoolObservation& pool) const;

  GuardrailOptions options_;
  std::deque<Entry> wishes_;   // within the stabilisation window
  std::deque<Entry> targets_;  // of the last minute
  core::Instant shrunk_at_{core::Duration::min() / 2};
  std::uint64_t failed_total_ = 0;
  core::Instant failed_at_{core::Duration::min() / 2};
};

}  // namespace penstock::planner
