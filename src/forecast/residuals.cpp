#include "forecast/residuals.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace penstock::forecast {
namespace {

const std::array<double, Residuals::kCapacity>& weights_by_age() {
  static const auto weights = [] {
    std::array<double, Residuals::kCapacity> table{};
    for (std::size_t age = 0; age < table.size(); ++age)
      table[age] = std::exp2(-static_cast<double>(age) / Residuals::kHalfLife);
    return table;
  }();
  return weights;
}

}  // namespace

double to_scale(double value) { return std::sqrt(std::max(value, 0.0)); }
double from_scale(double scaled) { return scaled > 0.0 ? scaled * scaled : 0.0; }

Residuals::Residuals(double overlap) : ring_(kCapacity, 0.0), overlap_(overlap) { sorted_.reserve(kCapacity); }

void Residuals::add(double residual) {
  if (sorted_.size() == kCapacity) {
    const Entry oldest{ring_[added_ % kCapacity], added_ - kCapacity};
    sorted_.erase(std::lower_bound(sorted_.begin(), sorted_.end(), oldest, comes_before));
  }
  const Entry entry{residual, added_};
  sorted_.insert(std::lower_bound(sorted_.begin(), sorted_.end(), entry, comes_before), entry);
  ring_[added_ % kCapacity] = residual;
  ++added_;
}

// Each residual is saved once, oldest first: a planner has tens of thousands of them.
void Residuals::archive(core::StateArchive& state) {
  std::vector<double> residuals;
  for (std::uint64_t number = added_ - sorted_.size(); number < added_; ++number)
    residuals.push_back(ring_[number % kCapacity]);
  state.values_of(added_, residuals);
  if (!state.reading()) return;
  if (residuals.size() > kCapacity || residuals.size() > added_) return state.fail("has too many residuals");
  std::uint64_t number = added_ - residuals.size();
  sorted_.clear();
  for (const double residual : residuals) {
    ring_[number % kCapacity] = residual;
    sorted_.push_back({residual, number++});
  }
  std::sort(sorted_.begin(), sorted_.end(), comes_before);
}

Quantiles Residuals::quantiles() const {
  Quantiles result{};
  if (sorted_.empty()) return result;
  const auto& weights = weights_by_age();
  double total = 0.0;
  for (std::size_t age = 0; age < sorted_.size(); ++age) total += weights[age];

  std::size_t wanted = 0;
  double below = 0.0;            // weight below the entry
  double position_before = 0.0;  // middle of the entry before, on the axis of weights
  double residual_before = sorted_.front().residual;
  for (const Entry& entry : sorted_) {
    const double weight = weights[added_ - 1 - entry.number];
    const double position = below + 0.5 * weight;
    for (; wanted < result.size(); ++wanted) {
      const double target = kProbabilities[wanted] * (total + overlap_) - 0.5 * overlap_;
      if (target > position) break;
      const double span = position - position_before;
      const double share = span > 0.0 ? std::clamp((target - position_before) / span, 0.0, 1.0) : 1.0;
      result[wanted] = residual_before + share * (entry.residual - residual_before);
    }
    below += weight;
    position_before = position;
    residual_before = entry.residual;
  }
  for (; wanted < result.size(); ++wanted) result[wanted] = sorted_.back().residual;
  return result;
}

}  // namespace penstock::forecast
