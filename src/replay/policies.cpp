#include "replay/policies.h"

#include <algorithm>
#include <string>
#include <utility>

#include "replay/planner_setup.h"
#include "replay/schedule_file.h"
#include "simulation/clairvoyant.h"

namespace penstock::replay {

bool is_clairvoyant(std::string_view policy) {
  return decision::name_without_settings(policy) == configuration::kClairvoyant;
}

bool is_penstock(std::string_view policy) {
  return decision::name_without_settings(policy) == configuration::kPenstock;
}

std::optional<double> goal_of(std::string_view policy, double general) {
  if (!is_clairvoyant(policy) && !is_penstock(policy)) return std::nullopt;
  return planner::settings_of(policy).value().get("goal", general);
}

core::Result<std::vector<PoolCapacity>> find_capacities(const ReplaySetup& setup,
                                                        const std::function<void(const TaskProgress&)>& show) {
  std::vector<PoolCapacity> capacities(setup.options.pools.size());
  const auto& policies = setup.configuration.policies;
  if (std::none_of(policies.begin(), policies.end(),
                   [](const std::string& name) { return planner::capacity_needs(name).any(); }))
    return capacities;
  std::vector<Task> tasks;
  for (std::size_t i = 0; i < capacities.size(); ++i)
    tasks.push_back({"load test", 1.0, [&, i](const std::function<void(double)>&) -> core::Result<void> {
                       auto found = find_capacity(setup, i);
                       if (!found) return tl::make_unexpected(found.error());
                       capacities[i] = *std::move(found);
                       return {};
                     }});
  return run_tasks(tasks, setup.configuration.jobs, show).map([&] { return std::move(capacities); });
}

core::Result<std::unique_ptr<decision::Policy>> make_policy(const ReplaySetup& setup,
                                                            std::span<const PoolCapacity> capacities,
                                                            std::string_view name,
                                                            const simulation::RunOptions& options) {
  if (is_clairvoyant(name))
    return simulation::make_clairvoyant(setup.workload, options).map([](simulation::Clairvoyant made) {
      return std::move(made.policy);
    });
  if (is_schedule(name)) return planner::make_schedule(setup.schedules.at(std::string{name}));
  if (is_penstock(name)) return make_penstock(setup.planner, options);
  return make_policy_with(capacities, name, setup.options);
}

}  // namespace penstock::replay
