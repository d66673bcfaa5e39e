// The replica metrics that llm-d's variant autoscaler queries: max_over_time(…[1m]) of KV use and of the waiting queue.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "core/state_archive.h"
#include "core/time.h"
#include "planner/samples.h"
#include "planner/windows.h"

namespace penstock::planner {

inline constexpr core::Duration kLlmdInterval = std::chrono::seconds{15};
inline constexpr double kLlmdKvThreshold = 0.80;    // kvCacheThreshold.
inline constexpr double kLlmdQueueThreshold = 5.0;  // queueLengthThreshold, in requests.

struct ReplicaPeak {
  double kv_usage = 0.0;  // Range 0 to 1.
  double queued_requests = 0.0;
  double kv_capacity_tokens = 0.0;
};

// Ready replicas that reported within the last minute, oldest first; the others have no series and are omitted.
class LlmdReplicaPeaks {
 public:
  [[nodiscard]] std::vector<ReplicaPeak> observe(core::Instant now, const signals::PoolObservation& pool) {
    std::map<std::uint32_t, Windows> still_there;
    std::vector<ReplicaPeak> peaks;
    for (const signals::ReplicaObservation* replica : ready_samples(pool, now, kRange).known) {
      const signals::EngineSample& sample = *replica->sample;
      Windows& windows = still_there[replica->replica] = windows_[replica->replica];
      if (const auto usage = sample.kv_usage()) windows.kv_usage.add(sample.sampled_at, *usage);
      windows.queue.add(sample.sampled_at, sample.queued_requests);
      const auto usage = windows.kv_usage.max(now, kRange);
      if (usage)
        peaks.push_back(
            {*usage, *windows.queue.max(now, kRange), static_cast<double>(sample.kv_capacity_tokens.value_or(0))});
    }
    windows_ = std::move(still_there);
    return peaks;
  }

  void archive(core::StateArchive& state) { state("llmd_peaks", windows_); }

 private:
  static constexpr core::Duration kRange = std::chrono::minutes{1};
  struct Windows {
    TimedValues kv_usage{kRange};
    TimedValues queue{kRange};
    void archive(core::StateArchive& state) { state.values_of(kv_usage, queue); }
  };
  std::map<std::uint32_t, Windows> windows_;  // Keyed by replica.
};

}  // namespace penstock::planner
