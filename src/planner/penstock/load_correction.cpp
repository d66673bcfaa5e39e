#include "planner/penstock/load_correction.h"

#include <algorithm>
#include <cmath>

namespace penstock::planner {
namespace {

constexpr double kFactorLeast = 0.5, kFactorMost = 2.0;
constexpr double kEarlier = 0.9;           // Weight of a check relative to the next one.
constexpr double kTolerated = 0.005;       // Difference that is not corrected.
constexpr double kChanceDeviations = 2.0;  // Standard deviations of a share that are chance.
// Relative steps: smaller after a step back, larger after a step in the same direction.
constexpr double kLeastStep = 0.01, kFirstStep = 0.05, kGreatestStep = 0.1;
constexpr double kGrowingStep = 1.5, kTurningStep = 0.5;
constexpr std::uint32_t kChecksToTrust = 8;  // That find trials too strict, before the factor falls below 1.
constexpr double kKeptPerMinute = 0.99;      // Share of the correction that a minute leaves.
// A check that is older does not explain what burns now.
constexpr core::Duration kChecked = std::chrono::minutes{5};
// Part of a replica that a larger plan may lack: the factor is not known more precisely. A smaller plan lacks nothing:
// a quarter of two replicas is much, and they would serve more than trials have shown.
constexpr double kPartOfReplica = 0.25;
constexpr double kCorrectionRounding = 1e-9;

double part_of_replica(double factor) { return factor > 1.0 ? kPartOfReplica : kCorrectionRounding; }

}  // namespace

bool LoadCorrection::observe(const TrialCheck& check, core::Instant now, bool may_grow) {
  requests_ = kEarlier * requests_ + check.requests;
  difference_ = kEarlier * difference_ + check.requests * (check.trial - check.observed);
  kept_ = kEarlier * kept_ + check.requests * check.observed;
  ++checks_;
  checked_at_ = now;
  const double difference = difference_ / requests_, kept = kept_ / requests_;
  const double chance = kChanceDeviations * std::sqrt(std::max(0.0, kept * (1.0 - kept)) / requests_);
  explained_ = std::abs(difference) <= kTolerated + chance;
  if (explained_ || (difference < 0.0 && factor_ <= 1.0 && checks_ < kChecksToTrust)) return false;
  const bool up = difference > 0.0;
  if (up && !may_grow) return false;
  if (step_ == 0.0)
    step_ = kFirstStep;
  else if (up == went_up_)
    step_ = std::min(kGreatestStep, kGrowingStep * step_);
  else
    step_ = std::max(kLeastStep, kTurningStep * step_);
  went_up_ = up;
  // Below 1 only after enough checks, also in one step from above.
  const double least = !up && checks_ < kChecksToTrust ? 1.0 / factor_ : 0.0;
  change(up ? 1.0 + step_ : std::max(least, 1.0 / (1.0 + step_)));
  return up;
}

bool LoadCorrection::raise(core::Instant now) {
  const bool known = checked_at_ && *checked_at_ <= now && now - *checked_at_ < kChecked;
  if (known && explained_) return false;
  change(1.0 + kGreatestStep);
  return true;
}

void LoadCorrection::decay() { factor_ = 1.0 + kKeptPerMinute * (factor_ - 1.0); }

std::uint32_t LoadCorrection::corrected(std::uint32_t replicas) const {
  const double corrected = std::ceil(replicas * factor_ - part_of_replica(factor_));
  return static_cast<std::uint32_t>(std::max(1.0, corrected));
}

Fleet LoadCorrection::planned(Fleet fleet) const {
  for (std::uint32_t& replicas : fleet)
    replicas = static_cast<std::uint32_t>(
        std::max(1.0, std::floor((replicas + part_of_replica(factor_)) / factor_ + kCorrectionRounding)));
  return fleet;
}

void LoadCorrection::change(double times) {
  factor_ = std::clamp(factor_ * times, kFactorLeast, kFactorMost);
  requests_ = difference_ = kept_ = 0.0;  // Of trials with another factor.
  checks_ = 0;
}

}  // namespace penstock::planner
