// How much slower or faster the engines of a pool really are than their step-time profile says, learned online.
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
  core::Duration half_life = std::chrono::minutes{5};  // of a replica's busy time: what is older counts half
  // Samples are put together until an interval has this much busy time, or has gone on for the longest.
  core::Duration busy_least = std::chrono::milliseconds{500};
  core::Duration interval_longest = std::chrono::minutes{1};
  double outlier_deviations = 4.0;  // median absolute deviations from a replica's median ratio
};

// Observed over predicted busy time of one replica, by least squares through the origin with exponential forgetting.
class SpeedFactor {
 public:
  // Both > 0. `kept` is what everything before counts, 0 to 1. False: an outlier, which only moves the median.
  bool add(double predicted_ms, double observed_ms, double kept, double outlier_deviations);
  [[nodiscard]] std::optional<double> factor() const;  // none before five inliers
  [[nodiscard]] double standard_error() const;         // of it, from the scatter of the inliers; 0 while there is none

  void archive(core::StateArchive& state) { state.values_of(xx_, xy_, yy_, weight_, inliers_, seen_, ratios_); }

 private:
  static constexpr std::size_t kRatios = 16;
  [[nodiscard]] bool is_outlier(double ratio, double deviations) const;

  double xx_ = 0.0, xy_ = 0.0, yy_ = 0.0, weight_ = 0.0;
  std::uint64_t inliers_ = 0, seen_ = 0;
  std::array<double, kRatios> ratios_{};  // the last ones, outliers too, so that a lasting change is believed
};

// Of one pool. A pure value: what was observed is all that it knows; the same observations give the same figures. Memory is
// bounded by the replicas that are in the pool. Not thread-safe. Every figure is finite.
class StepTimeCorrection {
 public:
  // Without a profile (null) only learned_model() is learned.
  explicit StepTimeCorrection(std::shared_ptr<const engine::StepTimeModel> profile,
                              const CorrectionOptions& options = {});

  // Takes the samples that are newer than those it saw; replicas that are gone are forgotten. Samples from after `now`
  // are rejected. Cost: about six calls of the profile for each replica with a new sample.
  void observe(const signals::PoolObservation& pool, core::Instant now);

  // Multiply the profile's times by it. The median of the replicas that have enough data; while none has, what it last
  // was; none before it ever was.
  [[nodiscard]] std::optional<double> factor() const { return factor_; }
  // Of the factor: within the replicas and between them. None while there is no factor.
  [[nodiscard]] std::optional<double> standard_error() const { return standard_error_; }
  [[nodiscard]] std::optional<double> factor_of(std::uint32_t replica) const;

  // Mean absolute relative error of the busy time over the last 128 intervals that are no outliers, each predicted before it
  // was learned from: with the factor of then, and without. None before the first.
  [[nodiscard]] std::optional<double> error() const { return mean_of(&Errors::corrected); }
  [[nodiscard]] std::optional<double> profile_error() const { return mean_of(&Errors::profile); }

  [[nodiscard]] std::uint64_t samples() const { return samples_; }    // intervals that were learned from
  [[nodiscard]] std::uint64_t outliers() const { return outliers_; }  // intervals too far from the replica's others
  [[nodiscard]] std::uint64_t rejected() const { return rejected_; }  // samples that contradict themselves or the clock

  // A law learned from the iterations alone; null until there is enough, in a pool that computes prompts until some were
  // seen.
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
    std::optional<signals::EngineSample> from;  // where its interval began
    core::Instant newest;                       // the last sample that was looked at
    std::uint32_t contradictions = 0;           // in a row
    SpeedFactor speed;
    void archive(core::StateArchive& state) { state.values_of(from, newest, contradictions, speed); }
  };

  void look_at(Replica& replica, const signals::EngineSample& sample);
  void learn_from(Replica& replica, const IterationInterval& interval);
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
  std::vector<Errors> errors_;  // a ring
  std::size_t next_error_ = 0;
  std::uint64_t samples_ = 0, outliers_ = 0, rejected_ = 0;
};

}  // namespace penstock::capacity
