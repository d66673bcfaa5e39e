#include "planner/penstock/futures.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "planner/penstock/load_history.h"

namespace penstock::planner {
namespace {

constexpr std::uint64_t kMinutesMost = 1440;  // Of history.
constexpr double kAgeMinutes = 720.0;         // A minute of this age counts 1/e.
constexpr double kFirstWeight = 30.0;         // Minutes of history that outweigh the first multiples.
constexpr std::uint64_t kLagMost = 30;        // Minutes.
constexpr double kMultipleMost = 8.0;         // Larger ones follow minutes without traffic.
constexpr double kLevelWidth = 0.2;           // Standard deviation of the logarithm of similar levels.
constexpr double kOfAnyLevel = 0.02;          // Weight of a minute of another level.
constexpr double kLoadWidth = 0.7;            // Standard deviation of the logarithm of similar loads.
constexpr double kOfAnyLoad = 0.1;            // Weight of a minute of another load.

// Quantiles of (load of a minute) / (load three minutes earlier) in the ServeGen days m-large 0 and m-mid 1 and in 14 h
// of DeepSeek-R1, all three pooled.
constexpr std::array<std::pair<double, double>, 9> kQuantiles{{{0.01, 0.45},
                                                               {0.05, 0.63},
                                                               {0.25, 0.86},
                                                               {0.50, 1.00},
                                                               {0.75, 1.16},
                                                               {0.90, 1.39},
                                                               {0.95, 1.58},
                                                               {0.97, 1.75},
                                                               {0.99, 2.10}}};
constexpr double kQuantilesLag = 2.0;  // Minutes between them.
constexpr double kSpreadPower = 0.15;  // Growth of the spread with the lag, measured for 0 to 5 minutes.

double first_multiple(double quantile, double spread) {
  const auto above = std::find_if(kQuantiles.begin() + 1, kQuantiles.end() - 1,
                                  [&](const auto& point) { return point.first >= quantile; });
  const auto below = above - 1;
  const double part = std::clamp((quantile - below->first) / (above->first - below->first), 0.0, 1.0);
  return std::pow(below->second + part * (above->second - below->second), spread);
}

double level_of(double base, double usual) { return base > 0.0 && usual > base ? base / usual : 1.0; }

// Of two levels or loads with this ratio, at least `of_any`; 1 if the ratio is unknown.
double similarity(double ratio, double width, double of_any) {
  if (!(ratio > 0.0) || !std::isfinite(ratio)) return 1.0;
  const double distance = std::log(ratio) / width;
  return of_any + (1.0 - of_any) * std::exp(-0.5 * distance * distance);
}

double middle(std::size_t index) { return (static_cast<double>(index) + 0.5) / Futures::kCount; }

}  // namespace

Futures::Futures(core::Duration lag) : lag_(std::min(kLagMost, minutes_up(lag))) {
  const double spread = std::pow((static_cast<double>(lag_) + 1.0) / (kQuantilesLag + 1.0), kSpreadPower);
  for (std::size_t i = 0; i < kCount; ++i) first_.push_back(first_multiple(middle(i), spread));
  learn({});
}

void Futures::observe(double peak, double base, double usual) {
  const double level = level_of(base, usual);
  ++count_;
  // bases_[k] is that of the minute which ended bases_.size() - k minutes ago.
  for (const std::uint64_t after : {lag_ + 1, lag_ + 2}) {
    if (bases_.size() < after) continue;
    const Base& then = bases_[bases_.size() - after];
    if (then.load > 0.0) past_.push_back({std::min(kMultipleMost, peak / then.load), then, count_});
  }
  bases_.push_back({base, level});
  if (bases_.size() > lag_ + 2) bases_.pop_front();
  while (!past_.empty() && past_.front().minute + kMinutesMost < count_) past_.pop_front();
  learn({base, level});
}

void Futures::learn(const Base& now) {
  std::vector<std::pair<double, double>> weighted;  // Multiple and weight.
  weighted.reserve(past_.size() + first_.size());
  for (const Past& past : past_) {
    const double age = static_cast<double>(count_ - past.minute) / kAgeMinutes;
    const double similar = similarity(past.then.level / now.level, kLevelWidth, kOfAnyLevel) *
                           similarity(past.then.load / now.load, kLoadWidth, kOfAnyLoad);
    weighted.emplace_back(past.multiple, 0.5 * similar * std::exp(-age));
  }
  for (const double first : first_) weighted.emplace_back(first, kFirstWeight / kCount);
  std::sort(weighted.begin(), weighted.end());
  double all = 0.0;
  for (const auto& [multiple, weight] : weighted) all += weight;
  multiples_.clear();
  double sum = 0.0;
  for (const auto& [multiple, weight] : weighted) {
    sum += weight;
    while (multiples_.size() < kCount && sum >= middle(multiples_.size()) * all) multiples_.push_back(multiple);
  }
  multiples_.resize(kCount, weighted.back().first);
}

}  // namespace penstock::planner
