// What the replicas of a pool carry: their profile, corrected by what their iterations really take.
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
  std::shared_ptr<const engine::StepTimeModel> step_time;  // null: only what is learned is known
  capacity::EngineLimits limits;
  double widening = 1.0;  // of uncertainty, ≥ 1: the share of the traffic outside the profile's ranges, and one
};

// One pool's. Corrects the profile once its error is known well enough, and keeps a correction until it is clearly wrong.
class ReplicaSpeed {
 public:
  explicit ReplicaSpeed(const PoolProfile& profile) : profile_(profile), correction_(profile.step_time) {}

  // True: factor() is another one now.
  bool observe(const signals::PoolObservation& pool, core::Instant now);

  [[nodiscard]] double factor() const { return applied_; }  // times that a step takes; 1 as long as nobody knows better
  [[nodiscard]] const capacity::StepTimeCorrection& correction() const { return correction_; }
  // Replicas of the usual speed that the slow ones among the ready are short of.
  [[nodiscard]] double replicas_lacking(const signals::PoolObservation& pool) const;

  // Replicas for the last minute's traffic at `growth` times its rate, by the token formula. None without a profile or
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
