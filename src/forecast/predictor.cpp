#include "forecast/predictor.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "forecast/auto_predictor.h"
#include "forecast/calibrated.h"
#include "forecast/models/arima.h"
#include "forecast/models/constant.h"
#include "forecast/models/decomposition.h"
#include "forecast/models/kalman.h"
#include "forecast/models/linear.h"
#include "forecast/models/seasonal.h"

namespace penstock::forecast {
namespace {

template <class T>
std::unique_ptr<Model> make(const PredictorOptions& options) {
  return std::make_unique<T>(options);
}

struct Entry {
  std::string_view name;
  std::unique_ptr<Model> (*make)(const PredictorOptions&);
};
// "auto" starts with the first entry.
constexpr std::array<Entry, 6> kModels = {{{"constant", make<ConstantModel>},
                                           {"linear", make<LinearModel>},
                                           {"seasonal", make<SeasonalModel>},
                                           {"arima", make<ArimaModel>},
                                           {"kalman", make<KalmanModel>},
                                           {"decomposition", make<DecompositionModel>}}};
constexpr std::string_view kAuto = "auto";

core::Result<void> check_window(const char* where, core::Duration window, core::Duration interval) {
  if (window > core::Duration{} && window <= interval * kStepsMax) return {};
  return core::invalid_input(where, "must be above 0 and at most " + std::to_string(kStepsMax) + " intervals");
}

core::Result<void> check(const PredictorOptions& options) {
  constexpr core::Duration kNone{};
  if (options.interval <= kNone || options.interval > std::chrono::hours{24})
    return core::invalid_input("interval", "must be above 0 and at most 24 h");
  if (options.horizons.empty()) return core::invalid_input("horizons", "must not be empty", "name the start-up time");
  for (std::size_t i = 0; i < options.horizons.size(); ++i) {
    const std::string where = "horizons[" + std::to_string(i) + "]";
    if (auto checked = check_window(where.c_str(), options.horizons[i], options.interval); !checked) return checked;
    if (i > 0 && options.horizons[i] <= options.horizons[i - 1])
      return core::invalid_input(where, "must be above the one before", "list horizons in ascending order");
  }
  if (options.peak_window < kNone) return core::invalid_input("peak_window", "must not be negative");
  if (options.gap_max < options.interval) return core::invalid_input("gap_max", "must be at least the interval");
  if (auto checked = check_window("level_window", options.level_window, options.interval); !checked) return checked;
  if (auto checked = check_window("trend_window", options.trend_window, options.interval); !checked) return checked;
  if (options.season < 2 * options.interval) return core::invalid_input("season", "must be at least two intervals");
  if (options.long_season != kNone &&
      (options.long_season <= options.season || options.long_season % options.season != kNone))
    return core::invalid_input("long_season", "must be a multiple of the season", "0 for none");
  if (options.memory <= kNone) return core::invalid_input("memory", "must be above 0");
  const auto finite = [](double value) { return value >= 0.0 && value <= 1e9; };
  if (!finite(options.q_level)) return core::invalid_input("q_level", "must be at least 0 and finite");
  if (!finite(options.q_trend)) return core::invalid_input("q_trend", "must be at least 0 and finite");
  if (!finite(options.r) || options.r <= 0.0) return core::invalid_input("r", "must be above 0 and finite");
  return {};
}

}  // namespace

std::int64_t steps_of(core::Duration horizon, core::Duration interval) {
  const std::int64_t whole = horizon / interval;
  return std::clamp<std::int64_t>(horizon % interval > core::Duration{} ? whole + 1 : whole, 1, kStepsMax);
}

std::vector<std::string_view> predictor_names() {
  std::vector<std::string_view> names;
  for (const Entry& entry : kModels) names.push_back(entry.name);
  names.push_back(kAuto);
  return names;
}

core::Result<std::unique_ptr<Predictor>> make_predictor(std::string_view name, const PredictorOptions& options) {
  if (auto checked = check(options); !checked) return tl::make_unexpected(checked.error());
  if (name == kAuto) {
    std::vector<std::unique_ptr<CalibratedPredictor>> candidates;
    for (const Entry& entry : kModels)
      candidates.push_back(std::make_unique<CalibratedPredictor>(entry.name, entry.make(options), options));
    return std::make_unique<AutoPredictor>(std::move(candidates), options);
  }
  const auto entry = std::find_if(kModels.begin(), kModels.end(), [&](const Entry& each) { return each.name == name; });
  if (entry == kModels.end()) {
    std::string known;
    for (const std::string_view each : predictor_names()) known += (known.empty() ? "" : ", ") + std::string(each);
    return core::invalid_input("predictor", "unknown name \"" + std::string(name) + "\"", "one of " + known);
  }
  return std::make_unique<CalibratedPredictor>(entry->name, entry->make(options), options);
}

}  // namespace penstock::forecast
