// Turns a model into a predictor: input is checked, every forecast is compared with the outcome, and the errors
// determine the quantiles of later forecasts.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "core/state_archive.h"
#include "forecast/history.h"
#include "forecast/model.h"
#include "forecast/predictor.h"
#include "forecast/residuals.h"

namespace penstock::forecast {

class CalibratedPredictor final : public Predictor {
 public:
  CalibratedPredictor(std::string_view name, std::unique_ptr<Model> model, const PredictorOptions& options);

  bool observe(const Sample& sample) override;
  [[nodiscard]] std::optional<Forecast> forecast(core::Duration horizon) const override;
  [[nodiscard]] bool ready() const override { return model_->ready(); }
  [[nodiscard]] const std::optional<Point>& last() const override { return intake_.last(); }
  [[nodiscard]] const Rejections& rejections() const override { return intake_.rejections(); }
  [[nodiscard]] std::string_view name() const override { return name_; }
  [[nodiscard]] std::string_view chosen(core::Duration) const override { return name_; }

  // Mean absolute error of the level at options.horizons[index], with more weight on recent errors; empty before the
  // first outcome.
  [[nodiscard]] std::optional<double> recent_error(std::size_t index) const;

  void archive(core::StateArchive& state) override {
    state("predictor", intake_, history_);
    state.elements(tracks_);
    model_->archive(state);
  }

 private:
  struct Pending {
    std::int64_t from;
    Outcome expected;
    void archive(core::StateArchive& state) { state.values_of(from, expected); }
  };
  // State of one horizon.
  struct Track {
    std::int64_t steps = 1;
    // Steps between forecasts that are recorded, because overlapping forecasts add little information.
    std::int64_t stride = 1;
    std::deque<Pending> pending;
    Residuals level, peak;
    double error_sum = 0.0, error_weight = 0.0;
    double decay = 1.0;  // Decay of the two sums per outcome.
    void archive(core::StateArchive& state) { state.values_of(pending, level, peak, error_sum, error_weight); }
  };

  void settle(Track& track, std::int64_t through);
  void record_forecasts(std::int64_t from);
  // The tracks below and above a horizon, and its relative position between them.
  struct Between {
    const Track* lower;
    const Track* upper;
    double share;
  };
  [[nodiscard]] Between between(std::int64_t steps) const;
  [[nodiscard]] static Distribution spread(double expected, const Between& between, Residuals Track::*kind);

  std::string name_;
  std::unique_ptr<Model> model_;
  Intake intake_;
  core::Duration interval_;
  std::size_t peak_steps_;
  std::vector<Track> tracks_;  // Ordered by horizon, ascending.
  History history_;
  std::vector<double> path_;  // Scratch space of record_forecasts().
};

}  // namespace penstock::forecast
