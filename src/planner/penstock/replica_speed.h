// Capacity of a pool's replicas: their profile, corrected by measured iterations.
#pragma once

#include <memory>
#include <optional>

#include "capacity/concurrency_limit.h"
#include "capacity/step_time_correction.h"
#include "capacity/token_formula.h"
#include "core/state_archive.h"
#include "planner/penstock/trials.h"
#include "signals/observation.h"
#include "signals/slo.h"

namespace penstock::planner {

struct PoolProfile {
  std::shared_ptr<const engine::StepTimeModel> step_time;  // Null if only learned data is available.
  capacity::EngineLimits limits;
  // Factor of uncertainty, at least 1: 1 plus the share of traffic outside the profile's ranges.
  double widening = 1.0;
  bool is_default = false;  // The engines were not described: the profile is a guess until it is corrected.
};

// Corrects the profile of one pool once the error is known precisely enough, and keeps a correction until it is clearly
// wrong. A profile that is a guess is corrected by the first measurement. Limits of the engines are learned, too: the
// sequences that run at once, and the capacity of the KV cache.
class ReplicaSpeed {
 public:
  explicit ReplicaSpeed(const PoolProfile& profile) : profile_(profile), correction_(profile.step_time) {}

  // Returns true if engine() has changed.
  bool observe(const signals::PoolObservation& pool, core::Instant now);

  // What was learned of the engines.
  [[nodiscard]] const EngineCorrection& engine() const { return applied_; }
  // Multiplier of step times; 1 without sufficient data.
  [[nodiscard]] double factor() const { return applied_.step_time; }
  // Mean gap between tokens in the mean batch of the replicas at work, where each prompt takes one step between those
  // that only decode. Empty without a profile or traffic.
  [[nodiscard]] std::optional<double> itl_ms(const signals::PoolObservation& pool) const;
  // Whether the profile is a guess, and no step time has been measured.
  [[nodiscard]] bool is_uncalibrated() const { return profile_.is_default && !correction_.factor(); }
  [[nodiscard]] const capacity::StepTimeCorrection& correction() const { return correction_; }
  // Capacity that slow ready replicas lack, in replicas of normal speed.
  [[nodiscard]] double replicas_lacking(const signals::PoolObservation& pool) const;

  // Replicas for the last minute's traffic at `growth` times its rate, by the token formula. Empty without a profile or
  // traffic.
  [[nodiscard]] std::optional<capacity::FormulaResult> by_formula(const signals::PoolObservation& pool,
                                                                  const signals::SloTarget& slo, double growth,
                                                                  double utilisation) const;

  void archive(core::StateArchive& state) { state("replica_speed", correction_, concurrency_, applied_); }

 private:
  [[nodiscard]] double learned_step_time() const;

  PoolProfile profile_;
  capacity::StepTimeCorrection correction_;
  capacity::ConcurrencyLimit concurrency_;
  EngineCorrection applied_;
};

}  // namespace penstock::planner
