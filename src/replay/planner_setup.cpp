#include "replay/planner_setup.h"

#include <utility>

#include "configuration/traces.h"
#include "engine/step_time.h"
#include "forecast/cron.h"
#include "simulation/traffic_history.h"

namespace penstock::replay {
namespace {

core::Result<std::vector<planner::PoolSchedule>> floors_of(const configuration::PlannerSetup& setup) {
  std::vector<planner::PoolSchedule> floors;
  for (const configuration::Schedule& schedule : setup.schedules) {
    auto floor = forecast::make_floor(schedule.cron, setup.utc_offset, schedule.length, schedule.replicas);
    if (!floor) {
      core::Error error = floor.error();
      error.where = schedule.location;
      return tl::make_unexpected(std::move(error));
    }
    floors.push_back({schedule.pool, *std::move(floor)});
  }
  return floors;
}

core::Result<std::vector<forecast::TrafficSample>> history_of(const configuration::Configuration& made,
                                                              core::Duration interval) {
  if (made.planner.warm_trace.empty()) return std::vector<forecast::TrafficSample>{};
  configuration::TraceOptions past = made.traces;
  past.names = {made.planner.warm_trace};
  past.read.from = {};
  past.read.to.reset();
  auto traces = configuration::load_traces(past, made.run.seed);
  if (!traces) return tl::make_unexpected(traces.error());
  auto workload = configuration::join_traces(*std::move(traces), made.run.pools.front().engine.block_tokens);
  if (!workload) return tl::make_unexpected(workload.error());
  return simulation::traffic_history(*workload, interval);
}

planner::PoolProfile profile_of(const simulation::PoolSpec& pool, const simulation::TrialOptions& trials) {
  planner::PoolProfile profile;
  profile.is_default = pool.step_time_model == simulation::PoolSpec{}.step_time_model;
  profile.step_time = engine::slowed(pool.step_time, trials.step_time_factor);
  profile.ranges = capacity::ranges_of(*pool.step_time, pool.role);
  profile.limits.max_sequences = pool.engine.max_sequences;
  profile.limits.max_batched_tokens = static_cast<double>(pool.engine.max_batched_tokens);
  profile.limits.kv_tokens = static_cast<double>(pool.engine.kv_blocks) * pool.engine.block_tokens;
  return profile;
}

}  // namespace

core::Result<planner::PlannerOptions> make_planner_options(const configuration::Configuration& configuration) {
  planner::PlannerOptions made = configuration.planner.options;
  auto floors = floors_of(configuration.planner);
  if (!floors) return tl::make_unexpected(floors.error());
  made.schedule.floors = *std::move(floors);
  auto history = history_of(configuration, made.outlook.interval);
  if (!history) return tl::make_unexpected(history.error());
  made.history = *std::move(history);
  return made;
}

std::unique_ptr<decision::Policy> make_penstock(planner::PlannerOptions planner, const simulation::RunOptions& options,
                                                const simulation::TrialOptions& trials) {
  planner.profiles.clear();
  for (const simulation::PoolSpec& pool : options.pools) {
    planner.profiles.push_back(profile_of(pool, trials));
    planner.profiles.back().is_default &= planner.guesses_engines;
  }
  const signals::SloPolicy slo{options.slo, options.slo_goal, options.slo_segments};
  return planner::make_penstock_planner(simulation::make_trials(options, trials), slo, planner);
}

}  // namespace penstock::replay
