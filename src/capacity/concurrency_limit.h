// The number of sequences that an engine runs at once (vLLM: max_num_seqs), learned from what it reports.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "core/state_archive.h"
#include "core/time.h"
#include "signals/observation.h"

namespace penstock::capacity {

// An engine whose requests wait for seconds although its KV cache has room runs as many as it can. The limit of a
// replica is the greatest number of running requests in such samples once it is the number in at least three, and in
// half, of the latest ones. The engines of a pool are alike: what one of them has run at once is below no limit of
// another, so that fewer running requests wait for something else, for example the tokens of an iteration. A prefill
// pool has no limit, because its prompts wait for tokens of an iteration. Not thread-safe.
class ConcurrencyLimit {
 public:
  // Each sample counts once. O(replicas).
  void observe(const signals::PoolObservation& pool);

  // The lowest limit of the replicas that none of them exceeds; empty before one is known.
  [[nodiscard]] std::optional<std::uint32_t> sequences() const { return sequences_; }

  void archive(core::StateArchive& state) { state("concurrency_limit", replicas_, most_run_, sequences_); }

 private:
  struct Replica {
    core::Instant newest;
    std::vector<std::uint32_t> running;  // Of the latest samples with a queue; at most kSamples.
    std::uint32_t limit = 0;             // 0: unknown.
    void archive(core::StateArchive& state) { state.values_of(newest, running, limit); }
  };
  static void learn(Replica& replica, const signals::EngineSample& sample);

  std::map<std::uint32_t, Replica> replicas_;
  std::uint32_t most_run_ = 0;  // Greatest number of running requests that a replica of the pool has reported.
  std::optional<std::uint32_t> sequences_;
};

}  // namespace penstock::capacity
