// Reports contradictions between the requests that several aggregated pools serve.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <set>

#include "configuration/configuration.h"
#include "core/traffic_class.h"

namespace penstock::configuration {
namespace {

using options::quote;
using signals::SloTraits;

// One of each kind of requests that the pools tell apart.
std::vector<SloTraits> kinds_of_requests(const std::vector<signals::RequestSelector>& selectors) {
  std::set<std::string_view> tenants = {""};
  std::set<std::uint32_t> prompts = {1};
  for (const signals::RequestSelector& each : selectors) {
    tenants.insert(each.tenant);
    prompts.insert(std::max(1U, each.prompt_min));
    if (each.prompt_max < UINT32_MAX) prompts.insert(each.prompt_max + 1);
  }
  std::vector<SloTraits> kinds;
  for (const char* traffic_class : {core::kInteractiveClass, core::kBatchClass})
    for (const std::string_view tenant : tenants)
      for (const std::uint32_t prompt : prompts) kinds.push_back({{}, traffic_class, tenant, prompt});
  return kinds;
}

std::string text_of(const SloTraits& kind) {
  return fmt::format("{} requests of {} with a prompt of {} tokens", kind.traffic_class,
                     kind.tenant.empty() ? "other tenants" : "the tenant " + quote(kind.tenant), kind.prompt_tokens);
}

}  // namespace

void check_pool_rules(const Configuration& made, options::Reading& reading) {
  const std::vector<simulation::PoolSpec>& pools = made.run.pools;
  bool all_aggregated = true;
  for (std::size_t i = 0; i < pools.size(); ++i) {
    if (pools[i].role == signals::Role::kAggregated) continue;
    all_aggregated = false;
    for (const char* key : {"class", "tenant", "prompt_min", "prompt_max", "overflow"})
      if (const std::string path = fmt::format("pools[{}].{}", i, key); reading.given(path))
        reading.report(path, "has an effect on aggregated pools only");
  }
  if (!all_aggregated || !reading.are_read_in_items("pools", pools.size(),
                                                    {"role", "name", "class", "tenant", "prompt_min", "prompt_max"}))
    return;
  bool is_valid = true;
  const auto report = [&](const std::string& path, std::string what, std::string hint = {}) {
    is_valid = false;
    reading.report(path, std::move(what), std::move(hint));
  };
  std::set<std::string_view> names;
  for (std::size_t i = 0; i < pools.size(); ++i) {
    const std::string path = fmt::format("pools[{}]", i);
    const signals::RequestSelector& selector = pools[i].serves;
    if (!names.insert(pools[i].name).second)
      report(reading.first_given({path + ".name", path}), fmt::format("two pools are called {}", quote(pools[i].name)),
             "give each pool its own name");
    if (selector.prompt_min > selector.prompt_max)
      report(reading.first_given({path + ".prompt_max", path + ".prompt_min"}),
             fmt::format("must be at least prompt_min ({}), is {}", selector.prompt_min, selector.prompt_max));
  }
  if (!is_valid) return;
  std::vector<signals::RequestSelector> serves;
  for (const simulation::PoolSpec& pool : pools) serves.push_back(pool.serves);
  std::vector<bool> serves_any(pools.size());
  for (const SloTraits& kind : kinds_of_requests(serves)) {
    const std::uint32_t pool = signals::first_match(serves, kind);
    if (pool < pools.size()) {
      serves_any[pool] = true;
      continue;
    }
    return reading.report(fmt::format("pools[{}]", pools.size() - 1), fmt::format("no pool serves {}", text_of(kind)),
                          "let the last pool serve all other requests, without class, tenant, prompt_min and "
                          "prompt_max");
  }
  for (std::size_t i = 0; i < pools.size(); ++i)
    if (!serves_any[i])
      reading.report(fmt::format("pools[{}]", i),
                     fmt::format("the pool {} serves no request, since the pools before it match all that it does",
                                 quote(pools[i].name)),
                     "the first that matches serves a request; put the narrower one first");
}

}  // namespace penstock::configuration
