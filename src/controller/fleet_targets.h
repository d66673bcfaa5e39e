// The targets that a fleet has got from the planner that leads.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "controller/fleet.h"
#include "decision/decision.h"
#include "signals/observation.h"

namespace penstock::controller {

class FleetTargets {
 public:
  explicit FleetTargets(Fleet& fleet) : fleet_(fleet) {}

  void set(std::size_t pool, std::uint32_t target) {
    if (targets_.size() <= pool) targets_.resize(pool + 1);
    targets_[pool] = target;
    fleet_.set_target(pool, target);
  }
  // A fleet without a target does not look for others that scale it. So it gets one that equals what it has, too: at
  // the first decision, and when a change by another client is adopted.
  void confirm(const decision::Decision& decided, std::span<const signals::Pool> pools) {
    for (std::size_t pool = 0; pool < pools.size(); ++pool) {
      const std::uint32_t target =
          std::clamp(decided.pools[pool].target, pools[pool].min_replicas, pools[pool].max_replicas);
      if (pool >= targets_.size() || targets_[pool] != target) set(pool, target);
      fleet_.set_asleep(pool, decided.pools[pool].asleep);
    }
  }
  // Another planner leads.
  void forget() {
    targets_.clear();
    fleet_.forget_targets();
  }

 private:
  Fleet& fleet_;
  std::vector<std::optional<std::uint32_t>> targets_;  // By pool.
};

}  // namespace penstock::controller
