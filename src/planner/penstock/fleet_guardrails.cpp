#include "planner/penstock/fleet_guardrails.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "core/result.h"
#include "planner/bounds.h"
#include "planner/penstock/role_switch.h"

namespace penstock::planner {

using signals::Observation;
using signals::PoolObservation;

namespace {

// A pool that requests replicas.
struct Claim {
  std::uint32_t least = 0, most = 0;  // Replicas.
  double wanted = 0.0;                // The value whose ratio to other pools is kept.
  double gpus = 1.0;                  // Per replica.

  [[nodiscard]] double share_of(double scale) const {
    return std::clamp(scale * wanted, static_cast<double>(least), static_cast<double>(most));
  }
};

// The highest share of all proposals that fits; 0 if not even the minimum fits.
double greatest_scale(const std::vector<Claim>& claims, double gpus) {
  const auto needs = [&](double scale) {
    return std::accumulate(claims.begin(), claims.end(), 0.0,
                           [&](double sum, const Claim& claim) { return sum + claim.gpus * claim.share_of(scale); });
  };
  if (needs(1.0) <= gpus) return 1.0;
  double fits = 0.0, exceeds = 1.0;
  constexpr int kHalvings = 60;  // More halvings than a double can distinguish.
  for (int i = 0; i < kHalvings; ++i) {
    const double middle = 0.5 * (fits + exceeds);
    (needs(middle) <= gpus ? fits : exceeds) = middle;
  }
  return fits;
}

// Returns replicas for each claim between its least and most that fit into the GPUs; more than the least only if that
// fits. Largest remainder: all are rounded down, then those with the largest loss get one more, if that fits.
std::vector<std::uint32_t> apportion(const std::vector<Claim>& claims, double gpus) {
  constexpr double kRounding = 1e-9;
  const double scale = greatest_scale(claims, gpus);
  std::vector<std::uint32_t> replicas;
  std::vector<double> lost;
  double left = gpus;
  for (const Claim& claim : claims) {
    const double share = claim.share_of(scale);
    const double whole = std::floor(share + kRounding);
    replicas.push_back(static_cast<std::uint32_t>(whole));
    lost.push_back(share - whole);
    left -= claim.gpus * whole;
  }
  std::vector<std::size_t> order(claims.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return lost[a] > lost[b]; });
  for (const std::size_t i : order) {
    if (lost[i] <= kRounding || claims[i].gpus > left) continue;
    ++replicas[i];
    left -= claims[i].gpus;
  }
  return replicas;
}

double gpus_of(const PoolObservation& pool, std::uint32_t replicas) {
  return static_cast<double>(pool.gpus_per_replica) * replicas;
}

}  // namespace

std::vector<std::uint32_t> FleetGuardrails::affordable(const Observation& observation,
                                                       const std::vector<PoolDecision>& proposals) const {
  std::vector<std::uint32_t> targets;
  for (const PoolDecision& proposal : proposals) targets.push_back(proposal.target);
  if (!options_.gpu_budget) return targets;
  const auto budget = static_cast<double>(*options_.gpu_budget);
  double held = 0.0, wished = 0.0;
  std::vector<Claim> claims;
  for (std::size_t i = 0; i < observation.pools.size(); ++i) {
    const PoolObservation& pool = observation.pools[i];
    const std::uint32_t most = std::max(pool.min_replicas, std::min(targets[i], pool.target_replicas));
    claims.push_back({pool.min_replicas, most, static_cast<double>(most), gpus_of(pool, 1)});
    held += gpus_of(pool, pool.target_replicas);
    wished += gpus_of(pool, most);
  }
  if (held <= budget) return targets;
  std::vector<std::uint32_t> granted;
  for (const Claim& claim : claims) granted.push_back(claim.most);
  if (wished > budget) granted = apportion(claims, budget);
  for (std::size_t i = 0; i < targets.size(); ++i) targets[i] = std::min(targets[i], granted[i]);
  return targets;
}

void FleetGuardrails::give(const Observation& observation, std::vector<std::uint32_t> needed,
                           std::vector<PoolDecision>& decisions) {
  for (std::size_t i = 0; i < needed.size(); ++i)
    needed[i] = std::max(needed[i], pools_[i].fewest_after_switch(observation.now, observation.pools[i]));
  given_ = replicas_to_give(observation, decisions, needed);
  for (std::size_t i = 0; i < given_.size(); ++i) {
    if (given_[i] == 0) continue;
    decisions[i].target -= given_[i];
    decisions[i].limited_by = Limit::kNone;
    decisions[i].evidence.push_back({"given_to_other_pool", static_cast<double>(given_[i]), "replicas"});
    pools_[i].revise(decisions[i].target);
  }
}

void FleetGuardrails::cut_growth(const Observation& observation, const std::vector<std::uint32_t>& targets,
                                 std::vector<PoolDecision>& decisions) {
  if (!options_.gpu_budget) return;
  double left = static_cast<double>(*options_.gpu_budget);
  std::vector<Claim> claims;
  std::vector<std::size_t> growing;
  for (std::size_t i = 0; i < decisions.size(); ++i) {
    const PoolObservation& pool = observation.pools[i];
    const std::uint32_t has = std::max(pool.target_replicas, pool.staying());
    left -= gpus_of(pool, pool.leaving());
    left += gpus_of(pool, given_[i]);  // They serve in the partner, whose growth needs no others.
    if (decisions[i].target <= pool.target_replicas) {
      left -= gpus_of(pool, has);
      continue;
    }
    // Replicas beyond the target are about to drain, so they are not growth that is already paid for.
    const std::uint32_t least = std::min(decisions[i].target, std::max(pool.target_replicas, pool.min_replicas));
    left -= gpus_of(pool, has > least ? has - least : 0);
    claims.push_back(
        {least, decisions[i].target, static_cast<double>(std::max(targets[i], decisions[i].target)), gpus_of(pool, 1)});
    growing.push_back(i);
  }
  const std::vector<std::uint32_t> granted = apportion(claims, left);
  for (std::size_t i = 0; i < growing.size(); ++i) {
    PoolDecision& decision = decisions[growing[i]];
    if (granted[i] == decision.target) continue;
    decision.target = granted[i];
    decision.limited_by = Limit::kGpuBudget;
    pools_[growing[i]].revise(granted[i]);
  }
}

std::vector<PoolDecision> FleetGuardrails::apply(const Observation& observation, std::vector<PoolDecision> proposals,
                                                 signals::ClockState clock, std::vector<std::uint32_t> needed) {
  PENSTOCK_ASSERT(proposals.size() == observation.pools.size(), "one proposal for each pool");
  pools_.resize(proposals.size(), Guardrails{options_});
  const std::vector<std::uint32_t> targets = affordable(observation, proposals);
  std::vector<PoolDecision> decisions;
  for (std::size_t i = 0; i < proposals.size(); ++i) {
    const std::uint32_t proposed = proposals[i].target;
    proposals[i].target = targets[i];
    PoolDecision& decision = decisions.emplace_back(
        clock == signals::ClockState::kSteady
            ? pools_[i].apply(observation.now, observation.pools[i], std::move(proposals[i]))
            : pools_[i].hold_over_jump(observation.now, observation.pools[i], std::move(proposals[i])));
    if (decision.limited_by == Limit::kNone && decision.target < proposed) decision.limited_by = Limit::kGpuBudget;
  }
  given_.assign(decisions.size(), 0);
  if (!needed.empty() && clock == signals::ClockState::kSteady) give(observation, std::move(needed), decisions);
  cut_growth(observation, targets, decisions);
  return decisions;
}

}  // namespace penstock::planner
