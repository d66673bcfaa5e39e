#include "planner/global/inputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <utility>

namespace penstock::planner::global {
namespace {

using core::invalid_input;

constexpr double kUnitsMax =
    1e12;  // Units of money; sums up to this limit, times prices, stay exact enough in doubles.
constexpr double kFigureMax = 1e12;   // Limit of requests/s, weights, prices and budgets.
constexpr double kReplicasMax = 1e6;  // Limit of one pool.

[[nodiscard]] bool sensible(double figure) { return figure >= 0.0 && figure <= kFigureMax; }

std::string range_fault(double figure) {
  return fmt::format("must be a number from 0 to {:g}, is {}", kFigureMax, figure);
}

std::optional<core::Error> check_hardware(const std::vector<Hardware>& hardware) {
  std::set<std::string> names;
  for (std::size_t i = 0; i < hardware.size(); ++i) {
    const std::string where = fmt::format("hardware[{}]", i);
    if (hardware[i].name.empty()) return invalid_input(where + ".name", "is empty").value();
    if (!names.insert(hardware[i].name).second)
      return invalid_input(where + ".name", fmt::format("'{}' is there twice", hardware[i].name)).value();
    if (!sensible(hardware[i].price_per_gpu_hour))
      return invalid_input(where + ".price_per_gpu_hour", range_fault(hardware[i].price_per_gpu_hour)).value();
  }
  return std::nullopt;
}

std::optional<core::Error> check_steps(const Offer& offer, const std::string& where) {
  if (offer.steps.empty())
    return invalid_input(where + ".steps", "is empty", "give at least the floor, and max at least min").value();
  for (std::size_t s = 0; s < offer.steps.size(); ++s) {
    const Step& step = offer.steps[s];
    const std::string at = fmt::format("{}.steps[{}]", where, s);
    if (step.replicas.size() != offer.pools.size())
      return invalid_input(at + ".replicas",
                           fmt::format("has {} numbers for {} pools", step.replicas.size(), offer.pools.size()))
          .value();
    if (!sensible(step.carried_rps)) return invalid_input(at + ".carried_rps", range_fault(step.carried_rps)).value();
    for (const std::uint32_t replicas : step.replicas)
      if (replicas > kReplicasMax)
        return invalid_input(at + ".replicas", fmt::format("must be at most {:g}, is {}", kReplicasMax, replicas))
            .value();
    if (s == 0) continue;
    const Step& before = offer.steps[s - 1];
    if (step.carried_rps < before.carried_rps)
      return invalid_input(at + ".carried_rps",
                           fmt::format("must not fall, is {} after {}", step.carried_rps, before.carried_rps))
          .value();
    for (std::size_t p = 0; p < step.replicas.size(); ++p)
      if (step.replicas[p] < before.replicas[p])
        return invalid_input(at + ".replicas",
                             fmt::format("must not fall, is {} after {}", step.replicas[p], before.replicas[p]))
            .value();
  }
  return std::nullopt;
}

std::optional<core::Error> check_deployments(const std::vector<Deployment>& deployments,
                                             const std::map<std::string, std::size_t>& kinds) {
  std::set<std::string> names;
  for (std::size_t d = 0; d < deployments.size(); ++d) {
    const Deployment& deployment = deployments[d];
    const std::string where = fmt::format("deployments[{}]", d);
    if (deployment.name.empty()) return invalid_input(where + ".name", "is empty").value();
    if (!names.insert(deployment.name).second)
      return invalid_input(where + ".name", fmt::format("'{}' is there twice", deployment.name)).value();
    if (!sensible(deployment.demand_rps))
      return invalid_input(where + ".demand_rps", range_fault(deployment.demand_rps)).value();
    if (!(sensible(deployment.weight) && deployment.weight > 0.0))
      return invalid_input(where + ".weight", fmt::format("must be above 0, is {}", deployment.weight)).value();
    if (deployment.offers.empty()) return invalid_input(where + ".offers", "is empty").value();
    std::set<std::string> pools;
    for (std::size_t o = 0; o < deployment.offers.size(); ++o) {
      const Offer& offer = deployment.offers[o];
      const std::string at = fmt::format("{}.offers[{}]", where, o);
      if (offer.pools.empty()) return invalid_input(at + ".pools", "is empty").value();
      for (std::size_t p = 0; p < offer.pools.size(); ++p) {
        const OfferPool& pool = offer.pools[p];
        const std::string pool_at = fmt::format("{}.pools[{}]", at, p);
        if (pool.name.empty()) return invalid_input(pool_at + ".name", "is empty").value();
        if (!pools.insert(pool.name).second)
          return invalid_input(pool_at + ".name", fmt::format("'{}' is there twice", pool.name)).value();
        if (!kinds.contains(pool.hardware))
          return invalid_input(pool_at + ".hardware", fmt::format("'{}' is not in the price list", pool.hardware))
              .value();
        if (pool.gpus_per_replica > kReplicasMax)
          return invalid_input(pool_at + ".gpus_per_replica",
                               fmt::format("must be at most {:g}, is {}", kReplicasMax, pool.gpus_per_replica))
              .value();
      }
      if (auto error = check_steps(offer, at)) return error;
    }
  }
  return std::nullopt;
}

// Chooses the unit of money so that the cost of the largest fleet is a number of units that sums exactly.
double unit_for(const std::vector<Deployment>& deployments, const std::map<std::string, double>& price) {
  double most = 0.0;
  for (const Deployment& deployment : deployments)
    for (const Offer& offer : deployment.offers)
      for (std::size_t p = 0; p < offer.pools.size(); ++p)
        most += price.at(offer.pools[p].hardware) * offer.pools[p].gpus_per_replica * offer.steps.back().replicas[p];
  double unit = 1e-6;
  while (most / unit > kUnitsMax) unit *= 10.0;
  return unit;
}

// Prices are rounded up and budgets down, so that rounding never exceeds a budget. Binary rounding errors, as of 2.3 ·
// 10⁶, are tolerated.
double in_units(double money, double unit, bool up) {
  const double scaled = money / unit;
  const double nearest = std::nearbyint(scaled);
  if (std::abs(scaled - nearest) < 1e-3) return nearest;
  return up ? std::ceil(scaled) : std::floor(scaled);
}

PlannedDeployment in_order(const Deployment& deployment, std::size_t place,
                           const std::map<std::string, std::size_t>& kinds) {
  PlannedDeployment planned;
  planned.deployment = deployment;
  planned.place = place;
  std::vector<std::size_t> order(deployment.offers.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return deployment.offers[a].pools[0].name < deployment.offers[b].pools[0].name;
  });
  planned.offer_at.resize(order.size());
  for (std::size_t at = 0; at < order.size(); ++at) {
    planned.deployment.offers[at] = deployment.offers[order[at]];
    planned.offer_at[order[at]] = at;
    std::vector<std::size_t> kind_of;
    for (const OfferPool& pool : planned.deployment.offers[at].pools) kind_of.push_back(kinds.at(pool.hardware));
    planned.kind_of.push_back(std::move(kind_of));
  }
  return planned;
}

}  // namespace

double Resource::used_by(const Mix& mix) const {
  if (limit == PoolLimit::kMoneyBudget) return mix.cost;
  if (kind) return mix.gpus[*kind];
  return std::accumulate(mix.gpus.begin(), mix.gpus.end(), 0.0);
}

core::Result<Inputs> inputs_of(const std::vector<Deployment>& deployments, const std::vector<Hardware>& hardware,
                               const Budget& budget) {
  if (auto error = check_hardware(hardware)) return tl::make_unexpected(std::move(*error));
  std::map<std::string, double> price;
  for (const Hardware& kind : hardware) price[kind.name] = kind.price_per_gpu_hour;
  std::map<std::string, std::size_t> kinds;
  Inputs inputs;
  for (const auto& [name, unused] : price) {
    kinds[name] = inputs.kinds.size();
    inputs.kinds.push_back(name);
  }
  if (auto error = check_deployments(deployments, kinds)) return tl::make_unexpected(std::move(*error));
  if (budget.money_per_hour && !sensible(*budget.money_per_hour))
    return invalid_input("budget.money_per_hour", range_fault(*budget.money_per_hour));

  inputs.money_unit = unit_for(deployments, price);
  for (const auto& [name, per_hour] : price) inputs.prices.push_back(in_units(per_hour, inputs.money_unit, true));
  for (std::size_t place = 0; place < deployments.size(); ++place)
    inputs.deployments.push_back(in_order(deployments[place], place, kinds));
  std::sort(inputs.deployments.begin(), inputs.deployments.end(),
            [](const PlannedDeployment& a, const PlannedDeployment& b) {
              if (a.deployment.priority != b.deployment.priority) return a.deployment.priority > b.deployment.priority;
              return a.deployment.name < b.deployment.name;
            });
  for (PlannedDeployment& planned : inputs.deployments) {
    auto mixes = mixes_of(inputs.mix_input(planned));
    if (!mixes) return tl::make_unexpected(std::move(mixes.error()));
    planned.mixes = std::move(*mixes);
    for (const Mix& mix : planned.mixes) planned.kept_max_rps = std::max(planned.kept_max_rps, mix.carried_rps);
  }
  std::map<std::string, double> gpus;
  for (const Hardware& kind : hardware)
    if (kind.gpus) gpus[kind.name] = static_cast<double>(*kind.gpus);
  for (const auto& [name, available] : gpus)
    inputs.resources.push_back({name, PoolLimit::kHardware, kinds.at(name), available});
  if (budget.gpus)
    inputs.resources.push_back({"gpu_budget", PoolLimit::kGpuBudget, std::nullopt, static_cast<double>(*budget.gpus)});
  if (budget.money_per_hour)
    inputs.resources.push_back({"money_budget", PoolLimit::kMoneyBudget, std::nullopt,
                                in_units(*budget.money_per_hour, inputs.money_unit, false)});
  return inputs;
}

}  // namespace penstock::planner::global
