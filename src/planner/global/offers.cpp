#include "planner/global/offers.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace penstock::planner::global {

Offer linear_offer(OfferPool pool, ReplicaRange range, double rps_per_replica) {
  Offer offer{{std::move(pool)}, {}};
  for (std::uint64_t n = range.min; n <= range.max; ++n)
    offer.steps.push_back({{static_cast<std::uint32_t>(n)}, static_cast<double>(n) * rps_per_replica});
  return offer;
}

core::Result<Offer> curve_offer(OfferPool pool, ReplicaRange range, double demand_rps, std::span<const double> shares) {
  if (range.max < range.min || shares.size() != std::size_t{range.max - range.min} + 1)
    return core::invalid_input(pool.name + ".shares",
                               fmt::format("{} shares for {} to {} replicas", shares.size(), range.min, range.max),
                               "give one share for each number of replicas");
  Offer offer{{std::move(pool)}, {}};
  double share = 0.0;
  for (std::size_t i = 0; i < shares.size(); ++i) {
    if (!(shares[i] >= 0.0 && shares[i] <= 1.0))
      return core::invalid_input(fmt::format("{}.shares[{}]", offer.pools[0].name, i),
                                 fmt::format("must be within 0 and 1, is {}", shares[i]));
    share = std::max(share, shares[i]);
    offer.steps.push_back({{range.min + static_cast<std::uint32_t>(i)}, share * demand_rps});
  }
  return offer;
}

core::Result<Offer> disaggregated_offer(DisaggregatedSide prefill, DisaggregatedSide decode) {
  for (const DisaggregatedSide* side : {&prefill, &decode}) {
    if (!(side->rps_per_replica > 0.0 && std::isfinite(side->rps_per_replica)))
      return core::invalid_input(side->pool.name + ".rps_per_replica",
                                 fmt::format("must be above 0, is {}", side->rps_per_replica));
    if (side->range.max < side->range.min)
      return core::invalid_input(side->pool.name + ".max",
                                 fmt::format("must be at least min ({}), is {}", side->range.min, side->range.max));
  }
  Offer offer{{prefill.pool, decode.pool}, {}};
  std::uint32_t p = prefill.range.min, d = decode.range.min;
  const double p_rps = prefill.rps_per_replica, d_rps = decode.rps_per_replica;
  while (true) {
    const double carried = std::min(p * p_rps, d * d_rps);
    offer.steps.push_back({{p, d}, carried});
    // The next step is the smallest fleet that carries more: the weaker side grows; if both are equal, both grow.
    const bool grow_p = p * p_rps <= carried, grow_d = d * d_rps <= carried;
    if ((grow_p && p == prefill.range.max) || (grow_d && d == decode.range.max)) break;
    if (grow_p) ++p;
    if (grow_d) ++d;
  }
  return offer;
}

}  // namespace penstock::planner::global
