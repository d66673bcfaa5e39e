// The interface of Penstock's planner and of all policies that it is compared with.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "core/state_archive.h"
#include "core/time.h"
#include "decision/decision.h"
#include "signals/observation.h"

namespace penstock::decision {

// Returns "keda-tokens" for "keda-tokens:utilisation=0.6".
[[nodiscard]] constexpr std::string_view name_without_settings(std::string_view policy) {
  return policy.substr(0, policy.find(':'));
}

// Time comes with the observation. Not thread-safe; a policy serves one run.
class Policy {
 public:
  virtual ~Policy() = default;
  [[nodiscard]] virtual std::string_view name() const = 0;
  // Time between decisions; Duration::max() for a policy that decides only once, at the start.
  [[nodiscard]] virtual core::Duration interval() const = 0;
  // How far back Observation::recent must reach.
  [[nodiscard]] virtual core::Duration memory() const { return core::Duration{}; }
  // Whether the policy reads PoolObservation::detail, which costs time on the path of every request.
  [[nodiscard]] virtual bool wants_segments() const { return false; }
  [[nodiscard]] virtual Decision decide(const signals::Observation& observation) = 0;
  // The targets by pool that are in force instead of those of the last decision, because a later stage limited them.
  virtual void revise(std::span<const std::uint32_t>) {}
  // Saves or restores everything that the next decisions depend on. It is restored into a policy that was made with the
  // same options; after an error the policy must not decide before another state is restored.
  virtual void archive(core::StateArchive&) {}
};

}  // namespace penstock::decision
