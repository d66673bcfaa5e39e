// Online correction factor between the measured step times of a pool's engines and their profile. Engines report their
// iterations, or histograms of the gaps between tokens.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "capacity/iteration_interval.h"
#include "capacity/learned_step_time.h"
#include "core/state_archive.h"
#include "core/time.h"
#include "engine/step_time.h"
#include "signals/observation.h"

namespace penstock::capacity {

struct CorrectionOptions {
  core::Duration half_life = std::chrono::minutes{5};  // Half-life of data in terms of a replica's busy time.
  // Samples are combined until an interval has this much busy time or reaches the maximum length.
  core::Duration busy_least = std::chrono::milliseconds{500};
  core::Duration interval_longest = std::chrono::minutes{1};
  double outlier_deviations = 4.0;  // Distance from a replica's median ratio in median absolute deviations.
};

// Ratio of observed to predicted busy time of one replica, by least squares through the origin with exponential
// forgetting.
class SpeedFactor {
 public:
  // Both times must be positive. Earlier data is weighted by `kept`, 0 to 1. Returns false for an outlier, which only
  // affects the median.
  bool add(double predicted_ms, double observed_ms, double kept, double outlier_deviations);
  [[nodiscard]] std::optional<double> factor() const;  // Empty before five inliers.
  // Standard error of the factor from the variance of the inliers; 0 without a factor.
  [[nodiscard]] double standard_error() const;

  void archive(core::StateArchive& state) { state.values_of(xx_, xy_, yy_, weight_, inliers_, seen_, ratios_); }

 private:
  static constexpr std::size_t kRatios = 16;
  [[nodiscard]] bool is_outlier(double ratio, double deviations) const;

  double xx_ = 0.0, xy_ = 0.0, yy_ = 0.0, weight_ = 0.0;
  std::uint64_t inliers_ = 0, seen_ = 0;
  // The latest ratios including outliers, so that a lasting change is accepted.
  std::array<double, kRatios> ratios_{};
};

// Correction of one pool. The state depends on the observations only, so equal observations give equal results. Memory
// is bounded by the replicas in the pool. Not thread-safe. All values are finite.
class StepTimeCorrection {
 public:
  // Without a profile (null), only learned_model() is updated.
  explicit StepTimeCorrection(std::shared_ptr<const engine::StepTimeModel> profile,
                              const CorrectionOptions& options = {});

  // Processes samples that are newer than the previous ones and removes replicas that left. Samples from after `now`
  // are rejected. Cost: about six calls of the profile per replica with a new sample.
  void observe(const signals::PoolObservation& pool, core::Instant now);

  // Factor for the profile's times: the median of the replicas with enough data, or the last value if there are none;
  // empty before the first value.
  [[nodiscard]] std::optional<double> factor() const { return factor_; }
  // Standard error of the factor from the variance within and between replicas; empty without a factor.
  [[nodiscard]] std::optional<double> standard_error() const { return standard_error_; }
  [[nodiscard]] std::optional<double> factor_of(std::uint32_t replica) const;

  // Mean absolute relative error of the predicted busy time over the last 128 intervals without outliers. Each was
  // predicted before it was learned, with the factor of that time (error) and without a factor (profile_error). Empty
  // before the first interval.
  [[nodiscard]] std::optional<double> error() const { return mean_of(&Errors::corrected); }
  [[nodiscard]] std::optional<double> profile_error() const { return mean_of(&Errors::profile); }

  [[nodiscard]] std::uint64_t samples() const { return samples_; }  // Intervals that were learned.
  // Intervals too far from the replica's other intervals.
  [[nodiscard]] std::uint64_t outliers() const { return outliers_; }
  // Samples that are inconsistent, or contradict the clock.
  [[nodiscard]] std::uint64_t rejected() const { return rejected_; }

  // A model learned from iterations only; null until there is enough data, which in a pool that computes prompts must
  // include prompts.
  [[nodiscard]] std::shared_ptr<const engine::StepTimeModel> learned_model() const;

  void archive(core::StateArchive& state) {
    state("step_time", replicas_, learned_, computes_prompts_, factor_, standard_error_, errors_, next_error_);
    state.values_of(samples_, outliers_, rejected_);
    if (next_error_ > errors_.size()) state.fail("does not fit together");
  }

 private:
  struct Errors {
    double corrected, profile;
    void archive(core::StateArchive& state) { state.values_of(corrected, profile); }
  };
  struct Replica {
    std::optional<signals::EngineSample> from;  // Start of the current interval.
    core::Instant newest;                       // The last processed sample.
    std::uint32_t contradictions = 0;           // Consecutive contradictions.
    SpeedFactor speed;
    void archive(core::StateArchive& state) { state.values_of(from, newest, contradictions, speed); }
  };

  void look_at(Replica& replica, const signals::EngineSample& sample);
  void learn_from(Replica& replica, const IterationInterval& interval, bool in_detail);
  void note_errors(double factor, double predicted_ms, double observed_ms);
  void update_factor();
  [[nodiscard]] double kept_after(double busy_ms, double replicas) const;
  [[nodiscard]] std::optional<double> mean_of(double Errors::*field) const;

  std::shared_ptr<const engine::StepTimeModel> profile_;
  CorrectionOptions options_;
  std::map<std::uint32_t, Replica> replicas_;
  LearnedStepTime learned_;
  bool computes_prompts_ = true;
  std::optional<double> factor_, standard_error_;
  std::vector<Errors> errors_;  // Ring buffer.
  std::size_t next_error_ = 0;
  std::uint64_t samples_ = 0, outliers_ = 0, rejected_ = 0;
};

}  // namespace penstock::capacity
