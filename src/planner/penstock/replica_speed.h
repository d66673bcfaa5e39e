// Capacity of a pool's replicas: their profile, corrected by measured iterations.
#pragma once

#include <memory>
#include <optional>
#include <span>

#include "capacity/concurrency_limit.h"
#include "capacity/profile_range.h"
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
  std::optional<capacity::ProfileRanges> ranges{};  // Of a measured profile.
  bool is_default = false;  // The engines were not described: the profile is a guess until it is corrected.
};

// By the profile and its correction, for the load of the moment.
struct LatencyEstimate {
  // Time until an engine has computed the prompts that wait and one more of mean length.
  std::optional<double> ttft_ms{};
  // Mean gap between tokens in the batch of an engine, where each prompt takes one step between those that only decode.
  std::optional<double> itl_ms{};
};

// Corrects the profile of one pool once the error is known precisely enough, and keeps a correction until it is clearly
// wrong. A profile that is a guess is corrected by the first measurement. Limits of the engines are learned, too: the
// sequences that run at once, and the capacity of the KV cache.
class ReplicaSpeed {
 public:
  explicit ReplicaSpeed(const PoolProfile& profile) : profile_(profile), correction_(profile.step_time) {}

  // Returns true if engine() has changed.
  bool observe(const signals::PoolObservation& pool, core::Instant now);
  // Compares the requests that have ended with the ranges of the profile, once a minute.
  void observe_lengths(std::span<const signals::RecentRequest> recent, core::Instant now);
  // Share of the requests whose lengths the profile does not cover.
  [[nodiscard]] double outside_profile() const { return outside_profile_; }

  // Share of the engines' time that prompts take in an aggregated pool, at the batch of the moment. Empty without a
  // profile or traffic.
  [[nodiscard]] std::optional<double> input_time_share(const signals::PoolObservation& pool) const;

  // What was learned of the engines.
  [[nodiscard]] const EngineCorrection& engine() const { return applied_; }
  // Multiplier of step times; 1 without sufficient data.
  [[nodiscard]] double factor() const { return applied_.step_time; }
  // The slowest ready replica. Without a profile or traffic nothing is known.
  [[nodiscard]] LatencyEstimate latency(const signals::PoolObservation& pool) const;
  // What one replica serves within the SLO of prompts and answers as in the last minute. Empty without a profile or
  // traffic, or if not even a single request is within it.
  [[nodiscard]] std::optional<capacity::ReplicaEstimate> estimate(const signals::PoolObservation& pool,
                                                                  const signals::SloTarget& slo) const;
  // Whether the profile is a guess, and no step time has been measured.
  [[nodiscard]] bool is_uncalibrated() const { return profile_.is_default && !correction_.factor(); }
  // Sequences that an engine was seen to run at once. Those of a described engine are named only where they correct it.
  [[nodiscard]] std::optional<std::uint32_t> learned_sequences() const {
    return profile_.is_default ? concurrency_.sequences() : applied_.max_sequences;
  }
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
  struct Shape;  // Of the traffic of the last minute.
  [[nodiscard]] double learned_step_time() const;
  [[nodiscard]] std::optional<Shape> shape_of(const signals::PoolObservation& pool) const;
  [[nodiscard]] capacity::EngineLimits limits() const;
  // The step of so many sequences of mean length, without a prompt.
  [[nodiscard]] engine::StepShape decode_step(const Shape& shape, std::uint32_t sequences) const;
  [[nodiscard]] double itl_ms(const signals::PoolObservation& pool, const Shape& shape, std::uint32_t running) const;
  [[nodiscard]] double ttft_ms(const signals::PoolObservation& pool, const Shape& shape,
                               const signals::EngineSample& sample) const;

  PoolProfile profile_;
  capacity::StepTimeCorrection correction_;
  capacity::ConcurrencyLimit concurrency_;
  EngineCorrection applied_;
  double outside_profile_ = 0.0;
  std::optional<core::Instant> compared_at_;
};

}  // namespace penstock::planner
