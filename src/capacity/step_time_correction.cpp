#include "capacity/step_time_correction.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include "capacity/histogram_interval.h"

namespace penstock::capacity {
namespace {

constexpr std::uint64_t kInliersLeast = 5;
// Lower bound relative to the median, so that nearly identical replicas tolerate small deviations.
constexpr double kDeviationLeast = 0.02;
// A larger ratio means that the profile belongs to another engine, or that the counters are wrong.
constexpr double kRatioMax = 100.0;
constexpr std::size_t kErrors = 128;
// After this many contradictions the reference sample is replaced, because it may be wrong.
constexpr std::uint32_t kContradictionsMax = 3;

double median(std::vector<double>& values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2.0;
}

}  // namespace

// ---- one replica ----------------------------------------------------------------------------------------------------

bool SpeedFactor::is_outlier(double ratio, double deviations) const {
  if (seen_ < kInliersLeast) return false;
  std::vector<double> values(ratios_.begin(),
                             ratios_.begin() + static_cast<std::ptrdiff_t>(std::min<std::uint64_t>(seen_, kRatios)));
  const double middle = median(values);
  for (double& value : values) value = std::abs(value - middle);
  return std::abs(ratio - middle) > deviations * std::max(median(values), kDeviationLeast * middle);
}

bool SpeedFactor::add(double predicted_ms, double observed_ms, double kept, double outlier_deviations) {
  const double ratio = observed_ms / predicted_ms;
  const bool outlier = is_outlier(ratio, outlier_deviations);
  ratios_[seen_++ % kRatios] = ratio;
  if (outlier) return false;
  xx_ = kept * xx_ + predicted_ms * predicted_ms;
  xy_ = kept * xy_ + predicted_ms * observed_ms;
  yy_ = kept * yy_ + observed_ms * observed_ms;
  weight_ = kept * weight_ + 1.0;
  ++inliers_;
  return true;
}

std::optional<double> SpeedFactor::factor() const {
  if (inliers_ < kInliersLeast) return std::nullopt;
  return xy_ / xx_;
}

double SpeedFactor::standard_error() const {
  if (weight_ <= 1.0) return 0.0;
  const double residual = std::max(0.0, yy_ - xy_ * xy_ / xx_);
  return std::sqrt(residual / (weight_ - 1.0) / xx_);
}

// ---- the pool -------------------------------------------------------------------------------------------------------

StepTimeCorrection::StepTimeCorrection(std::shared_ptr<const engine::StepTimeModel> profile,
                                       const CorrectionOptions& options)
    : profile_{std::move(profile)}, options_{options} {}

void StepTimeCorrection::observe(const signals::PoolObservation& pool, core::Instant now) {
  computes_prompts_ = pool.role != signals::Role::kDecode;
  std::map<std::uint32_t, Replica> here;
  for (const signals::ReplicaObservation& seen : pool.replicas)
    if (const auto known = replicas_.find(seen.replica); known != replicas_.end())
      here.insert(replicas_.extract(known));
    else if (seen.sample)
      here.try_emplace(seen.replica);
  replicas_ = std::move(here);

  for (const signals::ReplicaObservation& seen : pool.replicas) {
    if (!seen.sample) continue;
    Replica& replica = replicas_[seen.replica];
    if (replica.from && seen.sample->sampled_at <= replica.newest) continue;
    if (seen.sample->sampled_at > now || seen.sample->sampled_at < core::kStart || !is_sane(seen.sample->iterations)) {
      ++rejected_;
      continue;
    }
    replica.newest = seen.sample->sampled_at;
    look_at(replica, *seen.sample);
  }
  update_factor();
}

void StepTimeCorrection::look_at(Replica& replica, const signals::EngineSample& sample) {
  const bool in_detail = sample.iterations.steps() > 0;
  if (replica.from &&
      (went_back(replica.from->iterations, sample.iterations) || histograms_went_back(*replica.from, sample))) {
    const core::Instant newest = replica.newest;
    replica = Replica{};
    replica.newest = newest;
  }
  if (!replica.from) {
    replica.from = sample;
    return;
  }
  IterationInterval interval = interval_between(*replica.from, sample);
  if (!in_detail)
    if (auto made = histogram_interval(*replica.from, sample)) interval = *std::move(made);
  if (!is_plausible(interval)) {
    ++rejected_;
    if (++replica.contradictions == kContradictionsMax) {
      replica.from = sample;
      replica.contradictions = 0;
    }
    return;
  }
  replica.contradictions = 0;
  if (interval.done.busy() < options_.busy_least && interval.elapsed < options_.interval_longest) return;
  replica.from = sample;
  if (interval.done.steps() > 0) learn_from(replica, interval, in_detail);
}

// Histograms do not show how the time divides between prompts and tokens, which the learned model needs.
void StepTimeCorrection::learn_from(Replica& replica, const IterationInterval& interval, bool in_detail) {
  const double observed_ms = core::to_milliseconds(interval.done.busy());
  const double replicas = static_cast<double>(replicas_.size());
  if (!profile_) {
    if (!in_detail) return;
    learned_.add(interval, kept_after(observed_ms, replicas));
    ++samples_;
    return;
  }
  const double predicted_ms = predicted_busy_ms(*profile_, interval);
  if (!(predicted_ms * kRatioMax >= observed_ms && predicted_ms <= observed_ms * kRatioMax)) {
    ++rejected_;
    return;
  }
  const auto known = replica.speed.factor() ? replica.speed.factor() : factor_;
  if (!replica.speed.add(predicted_ms, observed_ms, kept_after(observed_ms, 1.0), options_.outlier_deviations)) {
    ++outliers_;
    return;
  }
  ++samples_;
  if (known) note_errors(*known, predicted_ms, observed_ms);
  if (in_detail) learned_.add(interval, kept_after(observed_ms, replicas));
}

double StepTimeCorrection::kept_after(double busy_ms, double replicas) const {
  return std::exp2(-busy_ms / (core::to_milliseconds(options_.half_life) * replicas));
}

void StepTimeCorrection::note_errors(double factor, double predicted_ms, double observed_ms) {
  const Errors errors{std::abs(factor * predicted_ms / observed_ms - 1.0), std::abs(predicted_ms / observed_ms - 1.0)};
  if (errors_.size() < kErrors) {
    errors_.push_back(errors);
  } else {
    errors_[next_error_] = errors;
  }
  next_error_ = (next_error_ + 1) % kErrors;
}

std::optional<double> StepTimeCorrection::mean_of(double Errors::*field) const {
  if (errors_.empty()) return std::nullopt;
  double sum = 0.0;
  for (const Errors& errors : errors_) sum += errors.*field;
  return sum / static_cast<double>(errors_.size());
}

// The variances within and between replicas add up; more replicas reduce both.
void StepTimeCorrection::update_factor() {
  std::vector<double> factors;
  double within = 0.0;
  for (const auto& [id, replica] : replicas_) {
    const auto factor = replica.speed.factor();
    if (!factor) continue;
    factors.push_back(*factor);
    within += replica.speed.standard_error() * replica.speed.standard_error();
  }
  if (factors.empty()) return;
  const auto count = static_cast<double>(factors.size());
  double mean = 0.0, between = 0.0;
  for (const double factor : factors) mean += factor / count;
  for (const double factor : factors) between += (factor - mean) * (factor - mean) / std::max(1.0, count - 1.0);
  factor_ = median(factors);
  standard_error_ = std::sqrt((within / count + between) / count);
}

std::optional<double> StepTimeCorrection::factor_of(std::uint32_t replica) const {
  const auto found = replicas_.find(replica);
  return found == replicas_.end() ? std::nullopt : found->second.speed.factor();
}

std::shared_ptr<const engine::StepTimeModel> StepTimeCorrection::learned_model() const {
  if (computes_prompts_ && !learned_.has_seen_prompts()) return nullptr;
  return learned_.model();
}

}  // namespace penstock::capacity
