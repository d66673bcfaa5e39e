#include "replay/fixed_fleet.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace penstock::replay {
namespace {

// A fleet that is overloaded attains nothing with twice the replicas either, so that only a fleet above this share
// shows by its attainment that more replicas do not help.
constexpr double kServing = 0.5, kNoGain = 0.0005;

using Found = core::Result<std::optional<FleetSizes>>;

class Search {
 public:
  Search(const std::vector<PoolSizes>& pools, const TryFleet& attempt) : pools_{pools}, attempt_{attempt} {}

  Found run() {
    FleetSizes fleet, failed;
    for (const PoolSizes& pool : pools_) fleet.push_back(pool.min);
    if (pools_.size() == 1) fleet[0] = std::clamp(pools_[0].expected, pools_[0].min, pools_[0].max);
    double before = 0.0;
    for (;;) {
      const auto tried = attempt(fleet);
      if (!tried) return tl::make_unexpected(tried.error());
      if (tried->reaches_goal) break;
      const bool stands_still = tried->attainment >= kServing && tried->attainment < before + kNoGain;
      failed = fleet;
      before = tried->attainment;
      for (std::size_t i = 0; i < fleet.size(); ++i) fleet[i] = std::min(fleet[i] * 2, pools_[i].max);
      if (fleet == failed || stands_still) return std::nullopt;
    }
    if (failed.empty() && pools_.size() == 1) return shrink(fleet[0]);
    if (failed.empty()) return fleet;  // The smallest of all.
    if (pools_.size() == 1) return bisect(failed[0], fleet[0]);
    return pools_.size() == 2 ? try_splits(std::move(fleet)) : shrink_each(std::move(fleet));
  }

 private:
  core::Result<FleetTrial> attempt(const FleetSizes& fleet) {
    if (const auto known = tried_.find(fleet); known != tried_.end()) return known->second;
    auto trial = attempt_(fleet);
    if (trial) tried_[fleet] = *trial;
    return trial;
  }

  [[nodiscard]] double price(const FleetSizes& fleet) const {
    double sum = 0.0;
    for (std::size_t i = 0; i < fleet.size(); ++i) sum += pools_[i].price * fleet[i];
    return sum;
  }

  // From a size that reaches the goal and was the first one tried: down in steps that double.
  [[nodiscard]] Found shrink(std::uint32_t enough) {
    const std::uint32_t min = pools_[0].min;
    for (std::uint32_t step = 1; enough > min; step *= 2) {
      const std::uint32_t fewer = enough - std::min(step, enough - min);
      const auto tried = attempt({fewer});
      if (!tried) return tl::make_unexpected(tried.error());
      if (!tried->reaches_goal) return bisect(fewer, enough);
      enough = fewer;
    }
    return FleetSizes{enough};
  }

  [[nodiscard]] Found bisect(std::uint32_t too_few, std::uint32_t enough) {
    while (enough - too_few > 1) {
      const std::uint32_t middle = too_few + (enough - too_few) / 2;
      const auto tried = attempt({middle});
      if (!tried) return tl::make_unexpected(tried.error());
      (tried->reaches_goal ? enough : too_few) = middle;
    }
    return FleetSizes{enough};
  }

  // Walks along the border between fleets that reach the goal and fleets that do not: from many replicas of the first
  // pool and few of the second one to the reverse.
  [[nodiscard]] Found try_splits(FleetSizes best) {
    const double left = (price(best) - pools_[1].price * pools_[1].min) / pools_[0].price;
    FleetSizes fleet{static_cast<std::uint32_t>(std::clamp<double>(left, pools_[0].min, pools_[0].max)), pools_[1].min};
    while (fleet[1] <= pools_[1].max) {
      bool reaches = price(fleet) >= price(best);  // It cannot be the cheapest, and a smaller first pool may be.
      if (!reaches) {
        const auto tried = attempt(fleet);
        if (!tried) return tl::make_unexpected(tried.error());
        reaches = tried->reaches_goal;
        if (reaches) best = fleet;
      }
      if (!reaches) {
        ++fleet[1];
      } else {
        if (fleet[0] == pools_[0].min) break;
        --fleet[0];
      }
    }
    return best;
  }

  // The smallest size of each pool beside those of the others, the most expensive pool first.
  [[nodiscard]] Found shrink_each(FleetSizes fleet) {
    std::vector<std::size_t> order(fleet.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return pools_[a].price > pools_[b].price; });
    for (const std::size_t pool : order) {
      std::uint32_t too_few = pools_[pool].min - 1;
      while (fleet[pool] - too_few > 1) {
        FleetSizes smaller = fleet;
        smaller[pool] = too_few + (fleet[pool] - too_few) / 2;
        const auto tried = attempt(smaller);
        if (!tried) return tl::make_unexpected(tried.error());
        if (tried->reaches_goal)
          fleet = std::move(smaller);
        else
          too_few = smaller[pool];
      }
    }
    return fleet;
  }

  const std::vector<PoolSizes>& pools_;
  const TryFleet& attempt_;
  std::map<FleetSizes, FleetTrial> tried_;
};

}  // namespace

Found cheapest_fleet(const std::vector<PoolSizes>& pools, const TryFleet& attempt) {
  PENSTOCK_ASSERT(!pools.empty(), "a deployment has a pool");
  return Search{pools, attempt}.run();
}

}  // namespace penstock::replay
