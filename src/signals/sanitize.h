// Rejects telemetry that cannot be true: samples that contradict themselves or each other, figures that are not
// numbers, counters and clocks that go back.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/state_archive.h"
#include "core/time.h"
#include "signals/observation.h"

namespace penstock::signals {

enum class ClockState : std::uint8_t { kSteady, kWentBack, kLeapt };
[[nodiscard]] const char* to_string(ClockState clock);  // "steady", "went_back", "leapt"

// A contradictory sample is dropped, and a contradictory window of latencies or traffic is emptied. Contradictory
// counts of a pool are only reported.
enum class Contradiction : std::uint8_t {
  kFutureSample,       // The sample was taken later than now.
  kSampleBeforeStart,  // The sample was taken before the run began.
  kSampleOutOfOrder,   // The sample is older than the previous one.
  kNegativeAge,
  kKvOverCapacity,      // More KV tokens are in use than exist.
  kQueueDisagrees,      // Nothing is queued, and there are queued tokens or an age.
  kRunningDisagrees,    // Nothing is running, and there are its tokens, or the reverse.
  kCounterWentBack,     // A counter of an engine went back; from the next sample on, the new value counts.
  kShareOutOfRange,     // A share is not a number from 0 to 1.
  kLatencyNoNumber,     // A latency is NaN, infinite or negative.
  kTrafficOutOfRange,   // The window has a negative length.
  kReplicaCounts,       // The counts of starting, ready and draining replicas differ from the listed replicas.
  kPoolCounterWentBack  // A counter of a pool went back.
};
[[nodiscard]] const char* to_string(Contradiction contradiction);  // "future_sample", …

struct Issue {
  Contradiction what;
  std::uint32_t pool = 0;                // Its index.
  std::optional<std::uint32_t> replica;  // Its id; empty for the pool itself.
};

struct Findings {
  ClockState clock = ClockState::kSteady;
  std::vector<Issue> issues;  // At most kIssuesMax.
  static constexpr std::size_t kIssuesMax = 64;
};

struct SanitizerOptions {
  core::Duration interval = std::chrono::seconds{5};  // Between observations.
  int leap_intervals = 10;                            // A step of more intervals is a leap.
};

// Cleans observations one after the other, in place. A rejected figure is afterwards missing, so that a policy holds as
// with missing telemetry. `recent` is not checked. After a jump of the clock the previous samples are forgotten,
// because their times have no meaning any more.
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
    std::vector<SampleMemory> samples, next;  // By replica.
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
  std::vector<PoolMemory> memory_;  // By pool.
  Findings findings_;
};

}  // namespace penstock::signals
