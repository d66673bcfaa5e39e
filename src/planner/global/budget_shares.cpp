#include "planner/global/budget_shares.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace penstock::planner::global {
namespace {

// The resources that one deployment uses at its floor, and at its demand with the offer that needs the fewest GPUs.
struct Taken {
  std::vector<double> floor_by_kind;
  std::vector<bool> uses_kind;
  double floor_gpus = 0.0, floor_money = 0.0;
  double needed_gpus = 0.0;
};

double gpus_at(const Offer& offer, const Step& step) {
  double gpus = 0.0;
  for (std::size_t p = 0; p < offer.pools.size(); ++p)
    gpus += static_cast<double>(offer.pools[p].gpus_per_replica) * step.replicas[p];
  return gpus;
}

core::Result<Taken> taken_by(const Deployment& deployment, const std::vector<Hardware>& hardware) {
  Taken taken;
  taken.floor_by_kind.assign(hardware.size(), 0.0);
  taken.uses_kind.assign(hardware.size(), false);
  double gpus_per_rps = std::numeric_limits<double>::infinity();
  for (const Offer& offer : deployment.offers) {
    for (std::size_t p = 0; p < offer.pools.size(); ++p) {
      const auto kind = std::find_if(hardware.begin(), hardware.end(),
                                     [&](const Hardware& line) { return line.name == offer.pools[p].hardware; });
      if (kind == hardware.end())
        return core::invalid_input(deployment.name,
                                   fmt::format("'{}' is not in the price list", offer.pools[p].hardware));
      const double gpus = static_cast<double>(offer.pools[p].gpus_per_replica) * offer.steps.front().replicas[p];
      taken.floor_by_kind[static_cast<std::size_t>(kind - hardware.begin())] += gpus;
      taken.uses_kind[static_cast<std::size_t>(kind - hardware.begin())] = true;
      taken.floor_gpus += gpus;
      taken.floor_money += gpus * kind->price_per_gpu_hour;
    }
    for (const Step& step : offer.steps)
      if (step.carried_rps > 0.0) gpus_per_rps = std::min(gpus_per_rps, gpus_at(offer, step) / step.carried_rps);
  }
  if (std::isfinite(gpus_per_rps)) taken.needed_gpus = deployment.demand_rps * gpus_per_rps;
  return taken;
}

// Splits a whole amount into whole parts in the ratio of the weights; the largest remainders get the rest. If all
// weights are zero, they count as equal.
std::vector<std::uint64_t> whole_parts(std::uint64_t amount, std::vector<double> weights) {
  double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  if (sum <= 0.0) {
    std::fill(weights.begin(), weights.end(), 1.0);
    sum = static_cast<double>(weights.size());
  }
  std::vector<std::uint64_t> parts;
  std::vector<std::pair<double, std::size_t>> remainders;
  std::uint64_t given = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const double exact = static_cast<double>(amount) * weights[i] / sum;
    parts.push_back(static_cast<std::uint64_t>(exact));
    remainders.emplace_back(static_cast<double>(parts[i]) - exact, i);
    given += parts[i];
  }
  std::sort(remainders.begin(), remainders.end());
  for (std::size_t i = 0; given < amount && i < remainders.size(); ++i, ++given) ++parts[remainders[i].second];
  return parts;
}

core::Result<std::vector<std::uint64_t>> split(std::uint64_t amount, const std::vector<double>& floors,
                                               const std::vector<double>& weights, const std::string& name) {
  const double floor = std::accumulate(floors.begin(), floors.end(), 0.0);
  if (floor > static_cast<double>(amount))
    return core::invalid_input(name, fmt::format("must hold all floors, which take {:g}, is {}", floor, amount));
  std::vector<std::uint64_t> parts = whole_parts(amount - static_cast<std::uint64_t>(floor), weights);
  for (std::size_t i = 0; i < parts.size(); ++i) parts[i] += static_cast<std::uint64_t>(floors[i]);
  return parts;
}

}  // namespace

core::Result<std::vector<BudgetShare>> budget_shares(const std::vector<Deployment>& deployments,
                                                     const std::vector<Hardware>& hardware, const Budget& budget) {
  std::vector<Taken> taken;
  for (const Deployment& deployment : deployments) {
    auto of_one = taken_by(deployment, hardware);
    if (!of_one) return tl::make_unexpected(of_one.error());
    taken.push_back(*std::move(of_one));
  }
  std::vector<BudgetShare> shares(deployments.size(), BudgetShare{hardware, budget});
  std::vector<double> floors(deployments.size()), weights(deployments.size());
  const auto give = [&](std::uint64_t amount, const std::string& name, auto put) -> core::Result<void> {
    const auto parts = split(amount, floors, weights, name);
    if (!parts) return tl::make_unexpected(parts.error());
    for (std::size_t d = 0; d < shares.size(); ++d) put(shares[d], (*parts)[d]);
    return {};
  };
  for (std::size_t k = 0; k < hardware.size(); ++k) {
    if (!hardware[k].gpus) continue;
    for (std::size_t d = 0; d < taken.size(); ++d) {
      floors[d] = taken[d].floor_by_kind[k];
      weights[d] = taken[d].uses_kind[k] ? taken[d].needed_gpus : 0.0;
    }
    const auto given = give(*hardware[k].gpus, hardware[k].name,
                            [&](BudgetShare& share, std::uint64_t gpus) { share.hardware[k].gpus = gpus; });
    if (!given) return tl::make_unexpected(given.error());
  }
  double needed = 0.0, floor_money = 0.0;
  for (std::size_t d = 0; d < taken.size(); ++d) {
    floors[d] = taken[d].floor_gpus;
    weights[d] = taken[d].needed_gpus;
    needed += weights[d];
    floor_money += taken[d].floor_money;
  }
  if (budget.gpus) {
    const auto given =
        give(*budget.gpus, "gpu_budget", [](BudgetShare& share, std::uint64_t gpus) { share.budget.gpus = gpus; });
    if (!given) return tl::make_unexpected(given.error());
  }
  if (budget.money_per_hour) {
    if (floor_money > *budget.money_per_hour)
      return core::invalid_input("money_budget", fmt::format("must hold all floors, which take {:g}, is {:g}",
                                                             floor_money, *budget.money_per_hour));
    for (std::size_t d = 0; d < taken.size(); ++d) {
      const double ratio = needed > 0.0 ? weights[d] / needed : 1.0 / static_cast<double>(taken.size());
      shares[d].budget.money_per_hour = taken[d].floor_money + (*budget.money_per_hour - floor_money) * ratio;
    }
  }
  return shares;
}

}  // namespace penstock::planner::global
