#include "planner/global/budget_division.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "planner/global/mixes.h"

namespace penstock::planner::global {
namespace {

// Sums of prices are rounded.
constexpr double kMoneyRounding = 1e-9;

// A limit, and what one replica of a pool takes of it.
struct Limited {
  enum class Of : std::uint8_t { kAllGpus, kHardware, kMoney };

  Of of = Of::kAllGpus;
  std::string hardware;  // Of kHardware.
  double available = 0.0;

  [[nodiscard]] double per_replica(const PoolClaim& pool) const {
    const auto gpus = static_cast<double>(pool.gpus_per_replica);
    if (of == Of::kMoney) return gpus * pool.price_per_gpu_hour;
    return of == Of::kAllGpus || pool.hardware == hardware ? gpus : 0.0;
  }
  [[nodiscard]] bool holds(double amount) const { return amount <= available * (1.0 + kMoneyRounding); }
  [[nodiscard]] std::string name() const {
    return of == Of::kAllGpus ? "GPUs" : of == Of::kMoney ? "USD per hour" : hardware + " GPUs";
  }
};

std::vector<Limited> limited_resources(const DivisionLimits& limits) {
  std::vector<Limited> made;
  for (const Hardware& kind : limits.hardware)
    if (kind.gpus) made.push_back({Limited::Of::kHardware, kind.name, static_cast<double>(*kind.gpus)});
  if (limits.budget.gpus) made.push_back({Limited::Of::kAllGpus, {}, static_cast<double>(*limits.budget.gpus)});
  if (limits.budget.money_per_hour) made.push_back({Limited::Of::kMoney, {}, *limits.budget.money_per_hour});
  return made;
}

template <class Replicas>
double sum_over(const std::vector<DeploymentClaim>& claims, const Limited& resource, Replicas replicas) {
  double sum = 0.0;
  for (std::size_t d = 0; d < claims.size(); ++d)
    for (std::size_t p = 0; p < claims[d].pools.size(); ++p)
      sum += resource.per_replica(claims[d].pools[p]) * static_cast<double>(replicas(d, p));
  return sum;
}

// ---- shares ---------------------------------------------------------------------------------------------------------

// The pools of one offer, as indexes in the claim: an aggregated pool, or a prefill pool with its decode pool.
using OfferedPools = std::vector<std::size_t>;

std::vector<OfferedPools> offered_pools(const DeploymentClaim& claim) {
  std::vector<OfferedPools> made;
  std::vector<std::size_t> decode;
  for (std::size_t p = 0; p < claim.pools.size(); ++p)
    if (claim.pools[p].role == signals::Role::kDecode) decode.push_back(p);
  std::size_t pairs = 0;
  for (std::size_t p = 0; p < claim.pools.size(); ++p) {
    if (claim.pools[p].role == signals::Role::kDecode) continue;
    OfferedPools& pools = made.emplace_back(OfferedPools{p});
    if (claim.pools[p].role == signals::Role::kPrefill && pairs < decode.size()) pools.push_back(decode[pairs++]);
  }
  for (; pairs < decode.size(); ++pairs) made.push_back({decode[pairs]});
  return made;
}

double gpus_of(const PoolClaim& pool, std::uint32_t replicas) {
  return static_cast<double>(pool.gpus_per_replica) * replicas;
}

// The number of steps of each offer for which all combinations of the offers are few enough for plan().
std::size_t steps_max(std::size_t offers) {
  std::size_t most = kMixesMax;
  const auto combinations = [offers](std::size_t steps) {
    double product = 1.0;
    for (std::size_t i = 0; i < offers; ++i) product *= static_cast<double>(steps);
    return product;
  };
  while (most > 1 && combinations(most) > static_cast<double>(kMixesMax)) most /= 2;
  return most;
}

// Steps from the minimum to the proposal. Each serves the GPUs that the pools of a fleet of this level would have.
// Beyond `most` levels, steps are of several replicas.
Offer offer_of(const DeploymentClaim& claim, const OfferedPools& indexes, const std::vector<std::string>& kinds,
               std::size_t most) {
  Offer offer;
  std::vector<std::uint64_t> wanted;
  double demand = 0.0;
  for (const std::size_t p : indexes) {
    const PoolClaim& pool = claim.pools[p];
    offer.pools.push_back({pool.name, kinds[p], pool.gpus_per_replica});
    wanted.push_back(pool.wanted());
    demand += gpus_of(pool, pool.wanted());
  }
  const auto add = [&](std::vector<std::uint32_t> replicas) {
    double level = 1.0;
    for (std::size_t i = 0; i < indexes.size(); ++i) {
      replicas[i] = std::max(replicas[i], claim.pools[indexes[i]].min_replicas);
      if (wanted[i] > 0) level = std::min(level, static_cast<double>(replicas[i]) / static_cast<double>(wanted[i]));
    }
    if (offer.steps.empty() || offer.steps.back().replicas != replicas)
      offer.steps.push_back({std::move(replicas), level * demand});
  };
  add(std::vector<std::uint32_t>(indexes.size(), 0));
  // The levels at which a pool has a whole number of replicas, as fractions of whole numbers.
  std::vector<std::pair<std::uint64_t, std::uint64_t>> levels;
  for (const std::uint64_t all : wanted)
    for (std::uint64_t n = 1; n <= all; ++n) levels.emplace_back(n, all);
  const auto is_below = [](const auto& a, const auto& b) { return a.first * b.second < b.first * a.second; };
  std::sort(levels.begin(), levels.end(), is_below);
  const std::size_t stride = levels.size() / std::max<std::size_t>(1, most - 1) + 1;
  for (std::size_t i = (levels.size() + stride - 1) % stride; i < levels.size(); i += stride) {
    const auto& [part, whole] = levels[i];
    std::vector<std::uint32_t> replicas;
    for (const std::uint64_t all : wanted)
      replicas.push_back(static_cast<std::uint32_t>((part * all + whole - 1) / whole));
    add(std::move(replicas));
  }
  return offer;
}

// The largest step that needs no more than what there was.
const Step& step_within(const Offer& offer, const std::vector<std::uint32_t>& previous) {
  const auto fits = [&](const Step& step) {
    for (std::size_t i = 0; i < previous.size(); ++i)
      if (step.replicas[i] > previous[i]) return false;
    return true;
  };
  const auto last = std::find_if(offer.steps.rbegin(), offer.steps.rend(), fits);
  return last == offer.steps.rend() ? offer.steps.front() : *last;
}

// A pool without hardware is a kind of its own. The name has a slash, which those of hardware may have as well.
std::vector<std::string> kinds_of(const DeploymentClaim& claim) {
  std::vector<std::string> kinds;
  for (const PoolClaim& pool : claim.pools)
    kinds.push_back(pool.hardware.empty() ? fmt::format("pool {}/{}", claim.name, pool.name) : pool.hardware);
  return kinds;
}

// Prices come with the pools. Where pools of one kind differ, the highest counts, so that no budget is exceeded.
std::vector<Hardware> price_list(const std::vector<DeploymentClaim>& claims, const std::vector<Hardware>& hardware) {
  std::vector<Hardware> list = hardware;
  for (Hardware& kind : list) kind.price_per_gpu_hour = 0.0;
  for (const DeploymentClaim& claim : claims) {
    const std::vector<std::string> kinds = kinds_of(claim);
    for (std::size_t p = 0; p < kinds.size(); ++p) {
      auto line = std::find_if(list.begin(), list.end(), [&](const Hardware& kind) { return kind.name == kinds[p]; });
      if (line == list.end()) line = list.insert(list.end(), Hardware{kinds[p], 0.0, std::nullopt});
      line->price_per_gpu_hour = std::max(line->price_per_gpu_hour, claim.pools[p].price_per_gpu_hour);
    }
  }
  return list;
}

Shares proposals_of(const std::vector<DeploymentClaim>& claims) {
  Shares shares;
  for (const DeploymentClaim& claim : claims) {
    shares.emplace_back();
    for (const PoolClaim& pool : claim.pools) shares.back().push_back(pool.wanted());
  }
  return shares;
}

Shares shares_of(const std::vector<DeploymentClaim>& claims, const DivisionLimits& limits, Options options,
                 const Shares& previous) {
  Shares shares = proposals_of(claims);
  const std::vector<Limited> resources = limited_resources(limits);
  const auto all_fit = std::all_of(resources.begin(), resources.end(), [&](const Limited& resource) {
    return resource.holds(sum_over(claims, resource, [&](std::size_t d, std::size_t p) { return shares[d][p]; }));
  });
  if (all_fit) return shares;

  std::vector<Deployment> deployments;
  options.previous.clear();
  for (std::size_t d = 0; d < claims.size(); ++d) {
    const DeploymentClaim& claim = claims[d];
    Deployment made{claim.name, claim.priority, claim.weight, 0.0, {}};
    const std::vector<std::string> kinds = kinds_of(claim);
    const std::vector<OfferedPools> offered = offered_pools(claim);
    for (const OfferedPools& pools : offered) {
      Offer offer = offer_of(claim, pools, kinds, steps_max(offered.size()));
      made.demand_rps += offer.steps.back().carried_rps;
      std::vector<std::uint32_t> before;
      for (const std::size_t p : pools)
        before.push_back(d < previous.size() && p < previous[d].size() ? previous[d][p] : claim.pools[p].target);
      const Step& step = step_within(offer, before);
      for (std::size_t i = 0; i < pools.size(); ++i)
        options.previous.push_back({claim.name, claim.pools[pools[i]].name, step.replicas[i]});
      made.offers.push_back(std::move(offer));
    }
    deployments.push_back(std::move(made));
  }
  const auto planned = plan(deployments, price_list(claims, limits.hardware), limits.budget, options);
  for (std::size_t d = 0; d < claims.size(); ++d)
    for (std::size_t p = 0; p < claims[d].pools.size(); ++p) {
      // There is no plan if the minimums alone exceed a limit.
      shares[d][p] = claims[d].pools[p].min_replicas;
      if (!planned) continue;
      for (const PoolPlan& pool : planned->pools)
        if (pool.deployment == claims[d].name && pool.pool == claims[d].pools[p].name) shares[d][p] = pool.replicas;
    }
  return shares;
}

// ---- targets --------------------------------------------------------------------------------------------------------

class Growth {
 public:
  // `held`: replicas whose GPUs are in use, ordered or draining.
  Growth(const std::vector<DeploymentClaim>& claims, const std::vector<Limited>& resources,
         std::vector<std::vector<PoolGrant>>& grants, Shares& held)
      : claims_(claims), resources_(resources), grants_(grants), held_(held) {}

  void run() {
    for (const Limited& resource : resources_)
      free_.push_back(resource.available * (1.0 + kMoneyRounding) -
                      sum_over(claims_, resource, [&](std::size_t d, std::size_t p) { return held_[d][p]; }));
    for (std::size_t d = 0; d < claims_.size(); ++d)
      for (std::size_t p = 0; p < claims_[d].pools.size(); ++p)
        if (grants_[d][p].target < grants_[d][p].share) growing_.push_back({d, p});
    while (!growing_.empty()) {
      const auto next = std::min_element(growing_.begin(), growing_.end(),
                                         [this](const Place& a, const Place& b) { return comes_before(a, b); });
      if (!grow(*next)) growing_.erase(next);
    }
  }

 private:
  struct Place {
    std::size_t deployment, pool;
  };

  [[nodiscard]] bool comes_before(const Place& a, const Place& b) const {
    const DeploymentClaim& of_a = claims_[a.deployment];
    const DeploymentClaim& of_b = claims_[b.deployment];
    if (of_a.priority != of_b.priority) return of_a.priority > of_b.priority;
    const PoolGrant& grant_a = grants_[a.deployment][a.pool];
    const PoolGrant& grant_b = grants_[b.deployment][b.pool];
    const std::uint64_t part_a = std::uint64_t{grant_a.target} * grant_b.share;
    const std::uint64_t part_b = std::uint64_t{grant_b.target} * grant_a.share;
    if (part_a != part_b) return part_a < part_b;
    return std::tie(of_a.name, a.pool) < std::tie(of_b.name, b.pool);
  }

  // One replica more. False: its share is reached, or its GPUs are not free.
  bool grow(const Place& at) {
    PoolGrant& grant = grants_[at.deployment][at.pool];
    const PoolClaim& pool = claims_[at.deployment].pools[at.pool];
    if (grant.target >= grant.share) return false;
    for (std::size_t r = 0; r < resources_.size(); ++r)
      if (const double each = resources_[r].per_replica(pool); each > 0.0 && each > free_[r]) return false;
    for (std::size_t r = 0; r < resources_.size(); ++r) free_[r] -= resources_[r].per_replica(pool);
    ++grant.target;
    ++held_[at.deployment][at.pool];
    return true;
  }

  const std::vector<DeploymentClaim>& claims_;
  const std::vector<Limited>& resources_;
  std::vector<std::vector<PoolGrant>>& grants_;
  Shares& held_;
  std::vector<double> free_;
  std::vector<Place> growing_;
};

ResourceUse use_of(const Limited& resource, const std::vector<DeploymentClaim>& claims,
                   const std::vector<std::vector<PoolGrant>>& grants, const Shares& held) {
  ResourceUse use{resource.name(), 0.0, resource.available, {}};
  for (std::size_t d = 0; d < claims.size(); ++d) {
    DeploymentUse of{claims[d].name, claims[d].priority, 0.0, 0.0};
    for (std::size_t p = 0; p < claims[d].pools.size(); ++p) {
      const double each = resource.per_replica(claims[d].pools[p]);
      of.used += each * held[d][p];
      of.draining += each * (held[d][p] - grants[d][p].target);
    }
    use.used += of.used;
    if (of.used > 0.0) use.deployments.push_back(of);
  }
  std::stable_sort(use.deployments.begin(), use.deployments.end(), [](const DeploymentUse& a, const DeploymentUse& b) {
    return a.priority != b.priority ? a.priority > b.priority : a.used > b.used;
  });
  return use;
}

std::string amount(double value) {
  return value == static_cast<double>(static_cast<std::int64_t>(value)) ? fmt::format("{:.0f}", value)
                                                                        : fmt::format("{:.2f}", value);
}

}  // namespace

Division divide(const std::vector<DeploymentClaim>& claims, const DivisionLimits& limits, const Options& options,
                const Shares& previous) {
  const std::vector<Limited> resources = limited_resources(limits);
  const Shares shares = shares_of(claims, limits, options, previous);
  Division made;
  Shares held;
  for (std::size_t d = 0; d < claims.size(); ++d) {
    made.grants.emplace_back();
    held.emplace_back();
    for (std::size_t p = 0; p < claims[d].pools.size(); ++p) {
      const PoolClaim& pool = claims[d].pools[p];
      const std::uint32_t share = shares[d][p];
      made.grants[d].push_back({share, std::max(std::min(pool.target, share), pool.min_replicas)});
      // Replicas beyond the new target are still there, or ordered: growth does not count on their GPUs.
      held[d].push_back(std::max({made.grants[d][p].target, pool.target, pool.running}) + pool.draining);
    }
  }
  Growth{claims, resources, made.grants, held}.run();

  for (const Limited& resource : resources) made.resources.push_back(use_of(resource, claims, made.grants, held));
  for (std::size_t d = 0; d < claims.size(); ++d) {
    made.limiting.emplace_back();
    for (const PoolClaim& pool : claims[d].pools) {
      std::optional<std::size_t> limiting;
      for (std::size_t r = 0; r < resources.size() && !limiting; ++r)
        if (!resources[r].holds(made.resources[r].used + resources[r].per_replica(pool))) limiting = r;
      made.limiting[d].push_back(limiting);
    }
  }
  return made;
}

std::vector<ResourceUse> running_use(const std::vector<DeploymentClaim>& claims, const DivisionLimits& limits) {
  std::vector<std::vector<PoolGrant>> running;
  Shares held;
  for (const DeploymentClaim& claim : claims) {
    running.emplace_back();
    held.emplace_back();
    for (const PoolClaim& pool : claim.pools) {
      running.back().push_back({pool.running, pool.running});
      held.back().push_back(pool.running + pool.draining);
    }
  }
  std::vector<ResourceUse> uses;
  for (const Limited& resource : limited_resources(limits)) uses.push_back(use_of(resource, claims, running, held));
  return uses;
}

std::string explain(const Division& division, const std::vector<DeploymentClaim>& claims, std::size_t deployment,
                    std::size_t pool) {
  const PoolGrant& grant = division.grants[deployment][pool];
  const std::uint32_t wanted = claims[deployment].pools[pool].wanted();
  if (grant.target >= wanted) return {};
  std::string text = fmt::format("limited by gpu_budget: {} of {} replicas", grant.target, wanted);
  if (division.resources.empty()) return text;
  const ResourceUse& use = division.resources[division.limiting[deployment][pool].value_or(0)];
  text += fmt::format("; {} of {} {} used", amount(use.used), amount(use.available), use.name);
  std::string_view separator = ": ";
  for (const DeploymentUse& of : use.deployments) {
    text += fmt::format("{}{} {}", std::exchange(separator, ", "), of.deployment, amount(of.used));
    std::string notes = of.priority == 0 ? "" : fmt::format("priority {}", of.priority);
    if (of.draining > 0.0) notes += fmt::format("{}{} draining", notes.empty() ? "" : ", ", amount(of.draining));
    if (!notes.empty()) text += fmt::format(" ({})", notes);
  }
  return text;
}

}  // namespace penstock::planner::global
