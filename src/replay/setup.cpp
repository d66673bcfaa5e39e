#include "replay/setup.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "capacity/profile_range.h"
#include "configuration/traces.h"
#include "engine/kv_memory.h"
#include "engine/step_time_models.h"
#include "planner/policy.h"
#include "replay/planner_setup.h"
#include "replay/schedule_file.h"
#include "report/format.h"
#include "workload/transform.h"

namespace penstock::replay {
namespace {

report::RunInfo info_of(const configuration::TraceOptions& traces, const simulation::RunOptions& options,
                        const workload::Workload& workload) {
  report::RunInfo info;
  info.workload = workload.name;
  info.requests = workload.requests.size();
  info.duration = workload.span();
  info.rate_scale = traces.rate_scale.factor;
  info.rate_scale_spread = workload::spread_of(traces.rate_scale, workload.span());
  info.score_from = options.judged_from - core::kStart;
  info.skipped_rows = workload.skipped_rows;
  info.seed = options.seed;
  const simulation::PoolSpec& first = options.pools.front();
  info.block_tokens = first.engine.block_tokens;
  info.kv_blocks = first.engine.kv_blocks;
  info.start_up = first.start_up;
  info.price_per_gpu_hour = first.price_per_gpu_hour;
  info.router = to_string(options.router);
  info.slo = options.slo;
  info.slo_goal = options.slo_goal;
  for (const simulation::PoolSpec& pool : options.pools) {
    const std::string engine = pool.step_time->description();
    if (info.engine.empty())
      info.engine = engine;
    else if (engine != first.step_time->description())
      info.engine += fmt::format(" ({} pool: {})", pool.name, engine);
    info.pools.push_back({pool, pool.replicas});
  }
  info.version = PENSTOCK_VERSION;
  return info;
}

core::Result<std::map<std::string, std::vector<planner::PoolSteps>>> read_schedules(
    const std::vector<std::string>& policies, const simulation::RunOptions& options) {
  std::vector<ScheduledPool> pools;
  for (const simulation::PoolSpec& pool : options.pools) pools.push_back({pool.name, pool.max_replicas});
  std::map<std::string, std::vector<planner::PoolSteps>> schedules;
  for (const std::string& policy : policies) {
    if (!is_schedule(policy)) continue;
    auto read = read_schedule(policy.substr(configuration::kSchedule.size() + 1), pools);
    if (!read) return tl::make_unexpected(read.error());
    schedules.emplace(policy, *std::move(read));
  }
  return schedules;
}

// Compares the traffic with the range of the pool's profile, as far as replicas of its role use it.
capacity::ProfileCoverage coverage_of(const simulation::PoolSpec& pool, const workload::Workload& workload) {
  const auto ranges = capacity::ranges_of(*pool.step_time, pool.role);
  if (!ranges) return {};
  capacity::ProfileRangeCheck check{*ranges, static_cast<double>(pool.engine.block_tokens) * pool.engine.kv_blocks};
  for (const workload::Request& request : workload.requests) check.add(request.input_tokens, request.output_tokens);
  return check.coverage();
}

std::string count_of(double tokens) { return report::format_count(static_cast<std::uint64_t>(tokens)); }

// Where a limit of a replica comes from: "64 sequences at once from the profile". `tolerance` is a rounding.
std::string limit_text(const std::string& used, double value, double stated, bool is_at_least, double tolerance) {
  if (is_at_least)
    return fmt::format("{} as given or by default, because {} is the limit of the measurement of the profile", used,
                       count_of(stated));
  if (std::abs(value - stated) <= tolerance) return used + " from the profile";
  return fmt::format("{} as given, the profile states {}", used, count_of(stated));
}

// Of the limits that the profile states; empty if it states none.
std::string profile_limits(const simulation::PoolSpec& pool, const engine::EngineProfile& profile) {
  const double kv_tokens = static_cast<double>(pool.engine.kv_blocks) * pool.engine.block_tokens;
  const double sequences = pool.engine.max_sequences;
  std::vector<std::string> limits;
  if (profile.kv_tokens_max >= 1.0)
    limits.push_back(limit_text(fmt::format("KV cache of {} tokens", count_of(kv_tokens)), kv_tokens,
                                profile.kv_tokens_max, profile.kv_tokens_at_least, pool.engine.block_tokens));
  if (profile.sequences_max >= 1.0)
    limits.push_back(limit_text(fmt::format("{} sequences at once", count_of(sequences)), sequences,
                                profile.sequences_max, profile.sequences_at_least, 0.5));
  return limits.empty() ? std::string{} : fmt::format("limits of a replica: {}", fmt::join(limits, "; "));
}

std::vector<std::string> batch_tenants(const simulation::RunOptions& options) {
  std::vector<std::string> names;
  if (!options.dispatch) return names;
  for (const dispatch::Tenant& tenant : options.dispatch->tenants)
    if (tenant.traffic_class == admission::Class::kBatch) names.push_back(tenant.name);
  return names;
}

}  // namespace

std::string kv_assumptions(const simulation::PoolSpec& pool) {
  if (const auto profile = engine::find_profile(pool.step_time_model)) return profile_limits(pool, *profile);
  const auto roofline = engine::find_roofline(pool.step_time_model);
  if (!roofline) return {};
  const engine::EngineConfig& engine = pool.engine;
  const engine::KvMemory memory =
      engine::kv_memory(roofline->spec(), {engine.max_sequences, engine.max_batched_tokens, engine.block_tokens});
  const double given = static_cast<double>(engine.kv_blocks) * engine.block_tokens;
  const std::string law = fmt::format("estimated KV cache of a replica: {} tokens; {}", count_of(memory.tokens),
                                      engine::describe(memory, roofline->spec()));
  if (std::abs(given - memory.tokens) <= engine.block_tokens) return law;
  return fmt::format("KV cache of a replica: {} tokens as given; {}", count_of(given), law);
}

core::Result<simulation::RunOptions> make_run_options(simulation::RunOptions options) {
  for (simulation::PoolSpec& pool : options.pools) {
    auto model = engine::make_step_time_model(pool.step_time_model);
    if (!model) return tl::make_unexpected(model.error());
    pool.step_time = *std::move(model);
  }
  return options;
}

core::Result<workload::Workload> load_workload(const configuration::TraceOptions& traces,
                                               const simulation::RunOptions& options) {
  auto read = configuration::load_traces(traces, options.seed);
  if (!read) return tl::make_unexpected(read.error());
  if (auto good = configuration::check_session_options(*read, traces); !good)
    return tl::make_unexpected(std::move(good.error()));
  auto workload = configuration::join_traces(*std::move(read), options.pools.front().engine.block_tokens);
  if (workload) workload::mark_batch(*workload, batch_tenants(options));
  return workload;
}

std::vector<std::string> engine_notes(const simulation::RunOptions& options, const workload::Workload& workload) {
  std::vector<std::string> notes;
  for (const simulation::PoolSpec& pool : options.pools) {
    const capacity::ProfileCoverage coverage = coverage_of(pool, workload);
    const std::string several = options.pools.size() > 1 ? pool.name + " pool: " : "";
    if (const std::string assumed = kv_assumptions(pool); !assumed.empty()) notes.push_back(several + assumed);
    for (const std::string& warning : coverage.warnings)
      notes.push_back(fmt::format("profile of the {} pool: {}", pool.name, warning));
  }
  return notes;
}

core::Result<ReplaySetup> prepare_replay(configuration::Configuration configuration) {
  auto options = make_run_options(configuration.run);
  if (!options) return tl::make_unexpected(options.error());
  auto planner = make_planner_options(configuration);
  if (!planner) return tl::make_unexpected(planner.error());
  auto schedules = read_schedules(configuration.policies, *options);
  if (!schedules) return tl::make_unexpected(schedules.error());
  auto workload = load_workload(configuration.traces, *options);
  if (!workload) return tl::make_unexpected(workload.error());
  if (configuration.score_from > workload->span())
    return core::invalid_input(
        "--score-from",
        fmt::format("no request arrives after {}", report::format_seconds(core::to_seconds(configuration.score_from))),
        fmt::format("the last one arrives at {}", report::format_seconds(core::to_seconds(workload->span()))));
  options->judged_from = core::kStart + configuration.score_from;
  report::RunInfo info = info_of(configuration.traces, *options, *workload);
  info.notes = engine_notes(*options, *workload);
  return ReplaySetup{std::move(configuration), *std::move(workload), *std::move(options),
                     std::move(info),          *std::move(planner),  *std::move(schedules)};
}

}  // namespace penstock::replay
