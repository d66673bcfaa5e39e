// Pools that may have no replica (min_replicas 0): when the last one stops, and when the first one starts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "core/state_archive.h"
#include "core/time.h"
#include "signals/observation.h"

namespace penstock::planner {

// A pool without requests for a while needs no replica. One without replicas needs the first as soon as a request
// arrives or waits. Requests that replicas still serve while they drain do not count for the latter. A prefill and a
// decode pool are one: neither serves without the other.
class ScaleToZero {
 public:
  // `after`: time without requests.
  explicit ScaleToZero(core::Duration after) : after_(after) {}

  // Called at every tick.
  void observe(const signals::Observation& observation);

  // ---- of the last observation --------------------------------------------------------------------------------------
  // Always false with min_replicas above 0.
  [[nodiscard]] bool needs_none(std::size_t pool) const { return pools_[pool].needs_none; }
  // The pool has no replica, and needs one.
  [[nodiscard]] bool needs_first(std::size_t pool) const { return pools_[pool].needs_first; }
  [[nodiscard]] core::Duration idle_time(std::size_t pool) const { return pools_[pool].idle_time; }

  void archive(core::StateArchive& state) { state("scale_to_zero", pools_); }

 private:
  struct PoolState {
    core::Instant busy_at;                        // The last time with requests.
    std::optional<std::uint64_t> arrivals_total;  // Empty before the first tick; each process counts anew.
    core::Duration idle_time{};
    bool needs_none = false, needs_first = false;
    void archive(core::StateArchive& state) { state.values_of(busy_at); }
  };
  // Whether requests arrived since the last observation, or wait for a replica.
  [[nodiscard]] static bool is_requested(const signals::PoolObservation& pool, const PoolState& last);

  core::Duration after_;
  std::vector<PoolState> pools_;
};

}  // namespace penstock::planner
