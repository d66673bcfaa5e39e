#include "planner/penstock/asleep.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace penstock::planner {
namespace {

bool counts(const FutureNeed& future) {
  return std::isfinite(future.within_wake_time) && std::isfinite(future.within_start_up) &&
         std::isfinite(future.weight) && future.weight > 0.0;
}

// The part of the start-up time in which a replica that was woken does not serve yet; 1 if waking is no faster.
double wake_share(const signals::Pool& pool) {
  if (pool.wake_time <= core::Duration{} || pool.wake_time >= pool.start_up) return 1.0;
  return core::to_seconds(pool.wake_time) / core::to_seconds(pool.start_up);
}

// Whole replicas; a billionth more than a whole number is a rounding error.
double whole(double replicas) { return std::max(0.0, std::ceil(replicas - 1e-9)); }

// The futures that count, in whole replicas and in ascending order of the need within the start-up time.
std::vector<FutureNeed> sorted(std::span<const FutureNeed> futures) {
  std::vector<FutureNeed> kept;
  for (const FutureNeed& future : futures)
    if (counts(future)) kept.push_back({whole(future.within_wake_time), whole(future.within_start_up), future.weight});
  std::stable_sort(kept.begin(), kept.end(),
                   [](const FutureNeed& a, const FutureNeed& b) { return a.within_start_up < b.within_start_up; });
  return kept;
}

double weight_of(std::span<const FutureNeed> futures) {
  double sum = 0.0;
  for (const FutureNeed& future : futures) sum += counts(future) ? future.weight : 0.0;
  return sum;
}

std::uint32_t asleep_beside(std::span<const FutureNeed> ascending, double weight, std::uint32_t base,
                            const signals::Pool& pool, double miss_price) {
  const double rest = 1.0 - wake_share(pool);
  const double gain = rest * (miss_price - 1.0 + pool.sleep_price);
  if (!(gain > pool.sleep_price) || pool.max_replicas <= base) return 0;
  const double exceeded = pool.sleep_price / gain;  // The least probability of use that pays.
  // The greatest need that is exceeded, or reached, with more than that probability.
  double above = 0.0;
  for (auto future = ascending.rbegin(); future != ascending.rend(); ++future) {
    above += future->weight;
    // Half a billionth absorbs rounding of sums of weights.
    if (above <= (exceeded + 5e-10) * weight) continue;
    return static_cast<std::uint32_t>(
        std::clamp(future->within_start_up - base, 0.0, static_cast<double>(pool.max_replicas - base)));
  }
  return 0;
}

}  // namespace

double expected_cost(std::span<const FutureNeed> futures, std::uint32_t base, std::uint32_t asleep,
                     const signals::Pool& pool, double miss_price) {
  const double served = base, most = served + asleep, share = wake_share(pool);
  double sum = 0.0;
  for (const FutureNeed& future : futures) {
    if (!counts(future)) continue;
    const double need = whole(future.within_start_up);
    const double early = std::max(0.0, whole(future.within_wake_time) - served);
    const double woken = std::min<double>(asleep, std::max(0.0, need - served));
    const double late = std::max(0.0, need - most);
    sum += future.weight *
           (share * miss_price * early + (1.0 - share) * ((1.0 - pool.sleep_price) * woken + miss_price * late));
  }
  const double weight = weight_of(futures);
  return served + pool.sleep_price * asleep + (weight > 0.0 ? sum / weight : 0.0);
}

std::uint32_t asleep_for(std::span<const FutureNeed> futures, std::uint32_t base, const signals::Pool& pool,
                         double miss_price) {
  return asleep_beside(sorted(futures), weight_of(futures), base, pool, miss_price);
}

TwoStages two_stages_for(std::span<const FutureNeed> futures, const signals::Pool& pool, double miss_price) {
  const std::vector<FutureNeed> ascending = sorted(futures);
  const double weight = weight_of(ascending);
  TwoStages best{pool.min_replicas, 0, expected_cost(ascending, pool.min_replicas, 0, pool, miss_price)};
  if (ascending.empty()) return best;
  for (std::uint32_t base = pool.min_replicas; base <= pool.max_replicas; ++base) {
    const std::uint32_t asleep = asleep_beside(ascending, weight, base, pool, miss_price);
    const double cost = expected_cost(ascending, base, asleep, pool, miss_price);
    if (cost < best.cost - 1e-9) best = {base, asleep, cost};
  }
  return best;
}

}  // namespace penstock::planner
