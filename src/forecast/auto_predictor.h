// The predictor "auto": at each horizon it uses the forecast of the predictor with the lowest recent error.
#pragma once

#include <memory>
#include <vector>

#include "core/state_archive.h"
#include "forecast/calibrated.h"

namespace penstock::forecast {

// All other predictors run side by side. The error of each is the mean absolute error of its levels, whose weight
// halves every `memory`. The choice changes if another error is below kSwitch of the chosen one's, which prevents
// flapping between similar predictors. The initial choice is "constant", which needs the least history.
class AutoPredictor final : public Predictor {
 public:
  static constexpr double kSwitch = 0.95;

  // `candidates` must not be empty; the first one is the initial choice.
  AutoPredictor(std::vector<std::unique_ptr<CalibratedPredictor>> candidates, const PredictorOptions& options);

  bool observe(const Sample& sample) override;
  [[nodiscard]] std::optional<Forecast> forecast(core::Duration horizon) const override;
  [[nodiscard]] bool ready() const override { return candidates_.front()->ready(); }
  [[nodiscard]] const std::optional<Point>& last() const override { return candidates_.front()->last(); }
  [[nodiscard]] const Rejections& rejections() const override { return candidates_.front()->rejections(); }
  [[nodiscard]] std::string_view name() const override { return "auto"; }
  [[nodiscard]] std::string_view chosen(core::Duration horizon) const override;

  void archive(core::StateArchive& state) override {
    for (const auto& candidate : candidates_) candidate->archive(state);
    state.elements(chosen_);
    for (const std::size_t chosen : chosen_)
      if (chosen >= candidates_.size()) state.fail("names a predictor that is not there");
  }

 private:
  void choose(std::size_t index);
  [[nodiscard]] const CalibratedPredictor& candidate_for(core::Duration horizon) const;

  std::vector<std::unique_ptr<CalibratedPredictor>> candidates_;
  std::vector<core::Duration> horizons_;
  std::vector<std::size_t> chosen_;  // Indexed by horizon.
};

}  // namespace penstock::forecast
