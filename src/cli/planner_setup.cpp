#include "cli/planner_setup.h"

#include <utility>

#include "cli/named_choice.h"
#include "cli/traces.h"
#include "engine/step_time.h"
#include "forecast/cron.h"
#include "simulation/traffic_history.h"

namespace penstock::cli {
namespace {

using decision::RolloutPhase;
using planner::OptimizationTarget;

constexpr NamedChoices<OptimizationTarget, 3> kTargets{{{"throughput", OptimizationTarget::kThroughput},
                                                        {"latency", OptimizationTarget::kLatency},
                                                        {"sla", OptimizationTarget::kSla}}};
constexpr NamedChoices<RolloutPhase, 6> kPhases{{{"observe", RolloutPhase::kObserve},
                                                 {"guardrails", RolloutPhase::kGuardrails},
                                                 {"throughput", RolloutPhase::kThroughput},
                                                 {"load", RolloutPhase::kLoad},
                                                 {"phase-specific", RolloutPhase::kPhaseSpecific},
                                                 {"cost", RolloutPhase::kCost}}};

core::Result<std::vector<planner::PoolSchedule>> floors_of(const config::PlannerSettings& settings) {
  std::vector<planner::PoolSchedule> floors;
  for (const config::ScheduleSettings& schedule : settings.schedules) {
    auto floor = forecast::make_floor(schedule.cron, settings.utc_offset, schedule.length, schedule.replicas);
    if (!floor) {
      core::Error error = floor.error();
      error.where = schedule.place;
      return tl::make_unexpected(std::move(error));
    }
    floors.push_back({schedule.pool, *std::move(floor)});
  }
  return floors;
}

core::Result<std::vector<forecast::TrafficSample>> history_of(const config::ReplaySettings& settings,
                                                              core::Duration interval) {
  if (settings.planner.warm_trace.empty()) return std::vector<forecast::TrafficSample>{};
  config::ReplaySettings past = settings;
  past.traces = {settings.planner.warm_trace};
  past.from = {};
  past.to.reset();
  auto traces = load_traces(past);
  if (!traces) return tl::make_unexpected(traces.error());
  auto workload = join_traces(*std::move(traces), settings.pools.front().engine.block_tokens);
  if (!workload) return tl::make_unexpected(workload.error());
  return simulation::traffic_history(*workload, interval);
}

planner::GuardrailOptions guardrails_of(const config::PlannerSettings& settings) {
  planner::GuardrailOptions made;
  made.growth_per_minute = settings.growth;
  made.stabilisation = settings.stabilisation;
  made.shrink_share = settings.shrink_share;
  made.kv_hot = settings.kv_hot;
  made.sensitivity = static_cast<std::uint32_t>(settings.sensitivity);
  made.manual_hold = settings.manual_hold;
  made.failure_cooldown = settings.failure_cooldown;
  if (settings.gpu_budget > 0) made.gpu_budget = settings.gpu_budget;
  return made;
}

planner::PoolProfile profile_of(const simulation::PoolSpec& pool, const simulation::TrialOptions& trials) {
  planner::PoolProfile profile;
  profile.step_time = engine::slowed(pool.step_time, trials.step_time_factor);
  profile.limits.max_sequences = pool.engine.max_sequences;
  profile.limits.max_batched_tokens = static_cast<double>(pool.engine.max_batched_tokens);
  profile.limits.kv_tokens = static_cast<double>(pool.engine.kv_blocks) * pool.engine.block_tokens;
  return profile;
}

// A memory that is shorter than usual is cut into slices that are shorter, too.
void remember(planner::PlannerOptions& made, core::Duration length) {
  for (planner::PlanLoopOptions* loop : {&made.throughput_loop, &made.load_loop}) {
    planner::MemoryOptions& memory = loop->memory;
    memory.length = length;
    memory.length_least = std::min(memory.length_least, length / 4);
    memory.slice_most = std::min(memory.slice_most, length / 4);
    memory.slice_least = std::min(memory.slice_least, length / 8);
    loop->urgent_memory = std::min(loop->urgent_memory, length);
  }
}

}  // namespace

core::Result<planner::PlannerOptions> make_planner_options(const config::ReplaySettings& settings) {
  const config::PlannerSettings& from = settings.planner;
  planner::PlannerOptions made;
  made.target = chosen(from.target, kTargets);
  made.phase = chosen(from.phase, kPhases);
  made.throughput_loop.interval = from.throughput_interval;
  if (from.load_interval > core::Duration{})
    made.interval = from.load_interval;
  else
    made.load_loop.interval = {};
  remember(made, from.memory);
  made.utilisation = from.utilisation;
  made.cost_after = from.cost_after;
  made.outlook.predictor = from.predictor;
  made.guardrails = guardrails_of(from);
  made.schedule.unix_start = std::chrono::duration_cast<std::chrono::seconds>(from.start_time).count();
  made.schedule.warm_pool = from.warm_pool;
  auto floors = floors_of(from);
  if (!floors) return tl::make_unexpected(floors.error());
  made.schedule.floors = *std::move(floors);
  auto history = history_of(settings, made.outlook.interval);
  if (!history) return tl::make_unexpected(history.error());
  made.history = *std::move(history);
  return made;
}

std::unique_ptr<decision::Policy> make_penstock(planner::PlannerOptions planner, const simulation::RunOptions& options,
                                                double uncertainty, const simulation::TrialOptions& trials) {
  planner.profiles.clear();
  for (const simulation::PoolSpec& pool : options.pools) planner.profiles.push_back(profile_of(pool, trials));
  planner.headroom.standard *= uncertainty;
  const signals::SloPolicy slo{options.slo, options.slo_goal, options.slo_segments};
  return planner::make_penstock_planner(simulation::make_trials(options, trials), slo, planner);
}

}  // namespace penstock::cli
