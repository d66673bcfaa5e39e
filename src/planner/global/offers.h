// A ladder of fleet sizes: what a deployment may have on one kind of serving, from its floor upwards.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/result.h"

namespace penstock::planner::global {

struct OfferPool {
  std::string name;      // unique in the deployment
  std::string hardware;  // a name of the price list
  std::uint32_t gpus_per_replica = 1;
};

// A rung: replicas of each pool, and the requests/s that they carry within the SLO together.
struct Step {
  std::vector<std::uint32_t> replicas;  // by pool of the offer
  double carried_rps = 0.0;
};

// Steps rise: none has fewer replicas in a pool, or carries less, than the one before. The first is the floor, the last
// the most that the pools may have. Gains may rise and fall from step to step: nothing assumes a concave curve.
struct Offer {
  std::vector<OfferPool> pools;
  std::vector<Step> steps;
};

struct ReplicaRange {
  std::uint32_t min = 0;
  std::uint32_t max = 1;
};

// One pool whose replicas carry the same each: what the capacity formula says.
[[nodiscard]] Offer linear_offer(OfferPool pool, ReplicaRange range, double rps_per_replica);

// One pool by a curve from trials: shares[i] is the share of `demand_rps` that min + i replicas serve within the SLO. A
// share below the one before it (trials are noisy) counts as that one. An error where a share is not in 0..1 or the
// numbers do not match.
[[nodiscard]] core::Result<Offer> curve_offer(OfferPool pool, ReplicaRange range, double demand_rps,
                                              std::span<const double> shares);

// A prefill and a decode pool that scale together: the weaker side is what they carry. On each rung the sides are as
// nearly in the ratio of their capacities as whole replicas allow, and no replica waits for the other side without
// need; beyond a side's max the other one does not grow. An error where a capacity is not above 0.
struct DisaggregatedSide {
  OfferPool pool;
  ReplicaRange range;
  double rps_per_replica = 0.0;
};
[[nodiscard]] core::Result<Offer> disaggregated_offer(DisaggregatedSide prefill, DisaggregatedSide decode);

// The same with a ratio that is given: each rung adds so many of both, from the first rung that holds both floors.
// What unit prefill and decode replicas carry together is rps_per_unit.
struct Unit {
  std::uint32_t prefill = 1;
  std::uint32_t decode = 1;
  double carried_rps = 0.0;
};
[[nodiscard]] core::Result<Offer> unit_offer(OfferPool prefill, OfferPool decode, const Unit& unit, ReplicaRange units);

}  // namespace penstock::planner::global
