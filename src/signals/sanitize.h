// Whether what is seen can be believed: samples that are old, missing or at odds with themselves, figures that are no
// numbers, counters and clocks that go back.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/state_archive.h"
#include "core/time.h"
#include "signals/observation.h"

namespace penstock::signals {

enum class Health : std::uint8_t { kFresh, kStale, kMissing, kContradictory };
[[nodiscard]] const char* to_string(Health health);  // "fresh", …

enum class ClockState : std::uint8_t { kSteady, kWentBack, kLeapt };
[[nodiscard]] const char* to_string(ClockState clock);  // "steady", "went_back", "leapt"

// What is at odds with what. Of a sample: it is dropped. Of a window of latencies or traffic: it is emptied. Of a pool's
// counts: it is only said, and the pool's `consistent` is false.
enum class Contradiction : std::uint8_t {
  kFutureSample,       // taken later than now
  kSampleBeforeStart,  // taken before the run began
  kSampleOutOfOrder,   // older than one that was there before
  kNegativeAge,
  kKvOverCapacity,      // more KV tokens in use than there are
  kQueueDisagrees,      // nothing queued, and yet queued tokens or an age
  kRunningDisagrees,    // nothing running, and yet its tokens; or running, and no token of it anywhere
  kCounterWentBack,     // an engine's; from the next sample on, the new value counts
  kShareOutOfRange,     // a share that is no number from 0 to 1
  kLatencyNoNumber,     // NaN, infinite or negative
  kTrafficOutOfRange,   // a window of negative length
  kReplicaCounts,       // starting, ready and draining are not as many as are listed
  kPoolCounterWentBack  // a pool's; likewise
};
[[nodiscard]] const char* to_string(Contradiction contradiction);  // "future_sample", …

struct Issue {
  Contradiction what;
  std::uint32_t pool = 0;                // its index
  std::optional<std::uint32_t> replica;  // its id; none: the pool itself
};

struct HealthCounts {  // of ready replicas
  std::uint32_t fresh = 0, stale = 0, missing = 0, contradictory = 0;

  // The worst of them; kMissing where no replica is ready.
  [[nodiscard]] Health worst() const;
};

struct PoolHealth {
  std::vector<Health> replicas;  // in the order of the observation's
  HealthCounts ready;
  bool consistent = true;  // its counts and counters
};

struct Findings {
  ClockState clock = ClockState::kSteady;
  std::vector<PoolHealth> pools;  // in the order of the observation's
  HealthCounts ready;             // of all pools
  std::vector<Issue> issues;      // kIssuesMax at most; the counts have all
  static constexpr std::size_t kIssuesMax = 64;

  [[nodiscard]] Health health() const { return ready.worst(); }
};

struct SanitizerOptions {
  core::Duration sample_age = std::chrono::seconds{30};  // an older sample is stale
  core::Duration interval = std::chrono::seconds{5};     // between observations …
  int leap_intervals = 10;                               // … of which a step of more is a leap
};

// Cleans observations one after the other, in place: what cannot be believed is afterwards as if it had not been heard,
// so that whoever decides on it holds, as with missing telemetry. `recent` is not looked at. After a jump of the clock,
// what was remembered is forgotten, since its times mean nothing any more.
//
// O(replicas · log replicas) at most, without allocation once it has seen a fleet of that size.
class Sanitizer {
 public:
  explicit Sanitizer(const SanitizerOptions& options = {}) : options_(options) {}

  // The findings hold until the next call.
  const Findings& clean(Observation& observation);

  void archive(core::StateArchive& state) { state("sanitizer", last_now_, memory_); }

 private:
  struct SampleMemory {
    std::uint32_t replica = 0;
    EngineSample sample;
    void archive(core::StateArchive& state) { state.values_of(replica, sample); }
  };
  struct PoolMemory {
    std::vector<SampleMemory> samples, next;  // by replica
    std::vector<std::uint64_t> counters;
    void archive(core::StateArchive& state) { state.values_of(samples, counters); }
  };

  [[nodiscard]] ClockState clock_at(core::Instant now);
  [[nodiscard]] std::optional<Contradiction> at_odds(const EngineSample& sample, core::Instant now,
                                                     const SampleMemory* before) const;
  void clean_replicas(Observation& observation, std::uint32_t index);
  void clean_windows(PoolObservation& pool, std::uint32_t index);
  void check_counts(const PoolObservation& pool, std::uint32_t index);
  void report(Contradiction what, std::uint32_t pool, std::optional<std::uint32_t> replica = std::nullopt);

  SanitizerOptions options_;
  std::optional<core::Instant> last_now_;
  std::vector<PoolMemory> memory_;  // by pool
  Findings findings_;
};

}  // namespace penstock::signals
