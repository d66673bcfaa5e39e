#include "forecast/auto_predictor.h"

#include <algorithm>

#include "core/result.h"

namespace penstock::forecast {

AutoPredictor::AutoPredictor(std::vector<std::unique_ptr<CalibratedPredictor>> candidates,
                             const PredictorOptions& options)
    : candidates_(std::move(candidates)), horizons_(options.horizons), chosen_(options.horizons.size(), 0) {
  PENSTOCK_ASSERT(!candidates_.empty(), "a choice needs candidates");
}

bool AutoPredictor::observe(const Sample& sample) {
  bool accepted = false;
  for (const auto& candidate : candidates_) accepted = candidate->observe(sample);
  if (!accepted) return false;
  for (std::size_t index = 0; index < chosen_.size(); ++index) choose(index);
  return true;
}

void AutoPredictor::choose(std::size_t index) {
  const std::optional<double> current = candidates_[chosen_[index]]->recent_error(index);
  if (!current) return;
  double limit = kSwitch * *current;
  for (std::size_t i = 0; i < candidates_.size(); ++i) {
    const std::optional<double> error = candidates_[i]->recent_error(index);
    if (!error || *error >= limit || !candidates_[i]->ready()) continue;
    limit = *error;
    chosen_[index] = i;
  }
}

const CalibratedPredictor& AutoPredictor::candidate_for(core::Duration horizon) const {
  const auto at = std::lower_bound(horizons_.begin(), horizons_.end(), horizon);
  const auto index = std::min(static_cast<std::size_t>(at - horizons_.begin()), horizons_.size() - 1);
  return *candidates_[chosen_[index]];
}

std::optional<Forecast> AutoPredictor::forecast(core::Duration horizon) const {
  return candidate_for(horizon).forecast(horizon);
}

std::string_view AutoPredictor::chosen(core::Duration horizon) const { return candidate_for(horizon).name(); }

}  // namespace penstock::forecast
