#include "planner/penstock/load_curve.h"

#include <algorithm>
#include <cmath>

namespace penstock::planner {
namespace {

constexpr double kBin = 0.05;            // Width in the logarithm of the load.
constexpr double kKeptOfCurve = 0.9967;  // 1/e in five hours.
constexpr double kRequestsLeast = 1.0;   // A bin with fewer is dropped.
constexpr double kAllMissed = 1.5;       // Multiple of the largest load that was tried at which all requests miss.

double load_of(int bin) { return std::exp((bin + 0.5) * kBin); }

}  // namespace

void LoadCurve::add(double load_per_replica, double requests, double missed) {
  if (!(load_per_replica > 0.0) || !(requests > 0.0)) return;
  if (!std::isfinite(load_per_replica) || !std::isfinite(requests) || std::isnan(missed)) return;
  Bin& bin = bins_[static_cast<int>(std::floor(std::log(load_per_replica) / kBin))];
  bin.requests += requests;
  bin.missed += std::clamp(missed, 0.0, requests);
}

void LoadCurve::age() {
  for (auto& [key, bin] : bins_) {
    bin.requests *= kKeptOfCurve;
    bin.missed *= kKeptOfCurve;
  }
  std::erase_if(bins_, [](const auto& entry) { return entry.second.requests < kRequestsLeast; });
  // Isotonic regression: neighbours that decrease are pooled.
  struct Block {
    int first = 0, last = 0;  // Bins.
    double requests = 0.0, missed = 0.0;
    [[nodiscard]] double share() const { return missed / requests; }
  };
  std::vector<Block> blocks;
  for (const auto& [key, bin] : bins_) {
    blocks.push_back({key, key, bin.requests, bin.missed});
    while (blocks.size() > 1 && blocks[blocks.size() - 2].share() > blocks.back().share()) {
      const Block last = blocks.back();
      blocks.pop_back();
      blocks.back().last = last.last;
      blocks.back().requests += last.requests;
      blocks.back().missed += last.missed;
    }
  }
  points_.clear();
  for (const Block& block : blocks) {
    points_.push_back({load_of(block.first), block.share()});
    if (block.last > block.first) points_.push_back({load_of(block.last), block.share()});
  }
  if (points_.empty()) return;
  points_.push_back({kAllMissed * load_of(bins_.rbegin()->first), 1.0});
  const auto half = std::find_if(points_.begin(), points_.end(), [](const Point& point) { return point.share >= 0.5; });
  capacity_ = half->load;
}

double LoadCurve::missed_share(double load) const {
  if (points_.empty() || load <= points_.front().load) return points_.empty() ? 0.0 : points_.front().share;
  const auto above =
      std::find_if(points_.begin() + 1, points_.end(), [&](const Point& point) { return point.load >= load; });
  if (above == points_.end()) return 1.0;
  const auto below = above - 1;
  return below->share + (above->share - below->share) * (load - below->load) / (above->load - below->load);
}

}  // namespace penstock::planner
