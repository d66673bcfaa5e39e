#include "telemetry/histogram.h"

#include <algorithm>
#include <array>
#include <numeric>

namespace penstock::telemetry {
namespace {

constexpr std::array kTtftBounds = {0.001, 0.005, 0.01, 0.02, 0.04, 0.06,  0.08,  0.1,   0.15, 0.2,
                                    0.25,  0.5,   0.75, 1.0,  1.5,  2.0,   2.5,   3.0,   4.0,  5.0,
                                    7.5,   10.0,  20.0, 40.0, 80.0, 160.0, 640.0, 2560.0};
constexpr std::array kItlBounds = {0.005, 0.01, 0.015, 0.02, 0.025, 0.03, 0.035, 0.04, 0.045,
                                   0.05,  0.06, 0.075, 0.1,  0.15,  0.2,  0.3,   0.4,  0.5,
                                   0.75,  1.0,  2.5,   5.0,  7.5,   10.0, 20.0,  40.0, 80.0};
constexpr std::array kRequestBounds = {0.01, 0.03, 0.1,  0.3,  0.5,  0.8,  1.0,   1.5,   2.0,   2.5,   5.0,    10.0,
                                       15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0, 960.0, 1920.0, 7680.0};
constexpr std::array kIterationBounds = {1.0,   8.0,    16.0,   32.0,   64.0,   128.0,  256.0,
                                         512.0, 1024.0, 2048.0, 4096.0, 8192.0, 16384.0};
constexpr std::array kLengthBounds = {1.0,    2.0,    5.0,      10.0,     20.0, 50.0, 100.0, 200.0, 500.0, 1000.0,
                                      2000.0, 5000.0, 10'000.0, 20'000.0, 5e4,  1e5,  2e5,   5e5,   1e6};

}  // namespace

void Histogram::add(double value, std::uint64_t times) {
  const auto at = std::lower_bound(bounds.begin(), bounds.end(), value) - bounds.begin();
  counts[static_cast<std::size_t>(at)] += times;
  sum += value * static_cast<double>(times);
}

std::uint64_t Histogram::count() const { return std::accumulate(counts.begin(), counts.end(), std::uint64_t{0}); }

double Histogram::quantile(double quantile) const {
  const std::uint64_t total = count();
  if (total == 0 || bounds.empty()) return 0.0;
  const double rank = quantile * static_cast<double>(total);
  double below = 0.0;
  for (std::size_t i = 0; i < bounds.size(); ++i) {
    const auto here = static_cast<double>(counts[i]);
    if (here > 0.0 && below + here >= rank) {
      const double low = i == 0 ? std::min(0.0, bounds[0]) : bounds[i - 1];
      return low + (bounds[i] - low) * std::max(0.0, rank - below) / here;
    }
    below += here;
  }
  return bounds.back();
}

std::optional<Histogram> difference(const Histogram& before, const Histogram& after) {
  if (before.bounds != after.bounds || before.counts.size() != after.counts.size()) return std::nullopt;
  Histogram between = after;
  for (std::size_t i = 0; i < between.counts.size(); ++i) {
    if (after.counts[i] < before.counts[i]) return std::nullopt;
    between.counts[i] -= before.counts[i];
  }
  between.sum -= before.sum;
  return between;
}

bool add_counts(Histogram& to, const Histogram& from) {
  if (to.counts.empty()) {
    to = from;
    return true;
  }
  if (to.bounds != from.bounds || to.counts.size() != from.counts.size()) return false;
  for (std::size_t i = 0; i < to.counts.size(); ++i) to.counts[i] += from.counts[i];
  to.sum += from.sum;
  return true;
}

std::span<const double> ttft_bounds_s() { return kTtftBounds; }
std::span<const double> itl_bounds_s() { return kItlBounds; }
std::span<const double> request_bounds_s() { return kRequestBounds; }
std::span<const double> iteration_token_bounds() { return kIterationBounds; }
std::span<const double> length_bounds() { return kLengthBounds; }

}  // namespace penstock::telemetry
