// A policy that decides on each pool separately and keeps a state for each.
#pragma once

#include <string_view>
#include <vector>

#include "core/state_archive.h"
#include "planner/policy.h"

namespace penstock::planner {

// State is the memory of the rule about one pool, default-constructed at first. Pools are identified by their position
// in the observation.
template <class State>
class PoolwisePolicy : public Policy {
 public:
  PoolwisePolicy(std::string_view name, core::Duration interval) : name_(name), interval_(interval) {}

  [[nodiscard]] std::string_view name() const final { return name_; }
  [[nodiscard]] core::Duration interval() const final { return interval_; }
  [[nodiscard]] Decision decide(const signals::Observation& observation) final {
    if (states_.size() < observation.pools.size()) states_.resize(observation.pools.size());
    Decision decision;
    for (std::size_t i = 0; i < observation.pools.size(); ++i)
      decision.pools.push_back(decide_pool(observation.now, observation.pools[i], states_[i]));
    return decision;
  }
  void archive(core::StateArchive& state) final { state("pools", states_); }

 protected:
  [[nodiscard]] virtual PoolDecision decide_pool(core::Instant now, const signals::PoolObservation& pool,
                                                 State& state) = 0;

 private:
  std::string_view name_;
  core::Duration interval_;
  std::vector<State> states_;
};

}  // namespace penstock::planner
