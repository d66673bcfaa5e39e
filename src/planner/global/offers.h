// The fleet sizes that a deployment may have on one kind of hardware, in steps from its floor upwards.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/result.h"

namespace penstock::planner::global {

struct OfferPool {
  std::string name;      // Unique in the deployment.
  std::string hardware;  // A name of the price list.
  std::uint32_t gpus_per_replica = 1;
};

// One step: the replicas of each pool, and the requests/s that they serve together within the SLO.
struct Step {
  std::vector<std::uint32_t> replicas;  // By pool of the offer.
  double carried_rps = 0.0;
};

// Steps increase: none has fewer replicas in a pool, or a lower capacity, than the one before. The first step is the
// floor, the last one the maximum of the pools. Gains per step may rise and fall; the curve need not be concave.
struct Offer {
  std::vector<OfferPool> pools;
  std::vector<Step> steps;
};

struct ReplicaRange {
  std::uint32_t min = 0;
  std::uint32_t max = 1;
};

// One pool with equal replicas, whose capacity follows the formula.
[[nodiscard]] Offer linear_offer(OfferPool pool, ReplicaRange range, double rps_per_replica);

// One pool with a curve from trials: shares[i] is the share of `demand_rps` that min + i replicas serve within the SLO.
// A share below its predecessor (trials are noisy) is raised to it. Shares outside 0..1 and a wrong number of shares
// are errors.
[[nodiscard]] core::Result<Offer> curve_offer(OfferPool pool, ReplicaRange range, double demand_rps,
                                              std::span<const double> shares);

// A prefill and a decode pool that scale together; the weaker side limits the capacity. In each step the sides are as
// close to the ratio of their capacities as whole replicas allow, and neither side has replicas beyond that need; if
// one side reaches its maximum, the other one does not grow. A capacity that is not above 0 is an error.
struct DisaggregatedSide {
  OfferPool pool;
  ReplicaRange range;
  double rps_per_replica = 0.0;
};
[[nodiscard]] core::Result<Offer> disaggregated_offer(DisaggregatedSide prefill, DisaggregatedSide decode);

}  // namespace penstock::planner::global
