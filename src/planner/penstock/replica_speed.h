// Capacity of a pool's replicas: their profile, corrected by measured iterations.
#pragma once

#include <memory>
#include <optional>

#include "capacity/step_time_correction.h"
#include "capacity/token_formula.h"
#include "core/state_archive.h"
#include "signals/observation.h"
#include "signals/slo.h"

namespace penstock::planner {

struct PoolProfile {
  std::shared_ptr<const engine::StepTimeModel> step_time;  // Null if only learned data is available.
  capacity::EngineLimits limits;
  // Factor of uncertainty, at least 1: 1 plus the share of traffic outside the profile's ranges.
  double widening = 1.0;
};

// Corrects the profile of one pool once the error is known precisely enough, and keeps a correction until it is clearly
// wrong.
class ReplicaSpeed {
 public:
  explicit ReplicaSpeed(const PoolProfile& profile) : profile_(profile), correction_(profile.step_time) {}

  // Returns true if factor() has changed.
  bool observe(const signals::PoolObservation& pool, core::Instant now);

  // Multiplier of step times; 1 without sufficient data.
  [[nodiscard]] double factor() const { return applied_; }
  [[nodiscard]] const capacity::StepTimeCorrection& correction() const { return correction_; }
  // Capacity that slow ready replicas lack, in replicas of normal speed.
  [[nodiscard]] double replicas_lacking(const signals::PoolObservation& pool) const;

  // Replicas for the last minute's traffic at `growth` times its rate, by the token formula. Empty without a profile or
  // traffic.
  [[nodiscard]] std::optional<capacity::FormulaResult> by_formula(const signals::PoolObservation& pool,
                                                                  const signals::SloTarget& slo, double growth,
                                                                  double utilisation) const;

  void archive(core::StateArchive& state) { state("replica_speed", correction_, applied_); }

 private:
  PoolProfile profile_;
  capacity::StepTimeCorrection correction_;
  double applied_ = 1.0;
};

}  // namespace penstock::planner
