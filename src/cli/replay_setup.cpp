#include "cli/replay_setup.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "capacity/profile_range.h"
#include "cli/named_choice.h"
#include "cli/planner_setup.h"
#include "cli/traces.h"
#include "config/planner_options.h"
#include "engine/step_time_models.h"
#include "engine/table.h"
#include "planner/policy.h"

namespace penstock::cli {
namespace {

constexpr NamedChoices<routing::Strategy, 5> kRouters = {{{"live", routing::Strategy::kLive},
                                                          {"kv", routing::Strategy::kKv},
                                                          {"round-robin", routing::Strategy::kRoundRobin},
                                                          {"least-loaded", routing::Strategy::kLeastLoaded},
                                                          {"p2c", routing::Strategy::kPowerOfTwo}}};
constexpr NamedChoices<signals::Role, 3> kRoles = {{{"aggregated", signals::Role::kAggregated},
                                                    {"prefill", signals::Role::kPrefill},
                                                    {"decode", signals::Role::kDecode}}};
constexpr NamedChoices<engine::QueueOrder, 3> kQueueOrders = {{{"fcfs", engine::QueueOrder::kFcfs},
                                                               {"shortest", engine::QueueOrder::kShortest},
                                                               {"priority", engine::QueueOrder::kPriority}}};
constexpr NamedChoices<engine::PreemptionOrder, 3> kPreemptionOrders = {
    {{"lifo", engine::PreemptionOrder::kLifo},
     {"least-progress", engine::PreemptionOrder::kLeastProgress},
     {"priority", engine::PreemptionOrder::kPriority}}};

engine::EngineConfig engine_of(const config::EngineSettings& settings) {
  engine::EngineConfig made;
  made.block_tokens = settings.block_tokens;
  made.kv_blocks = settings.kv_blocks;
  made.max_sequences = settings.max_sequences;
  made.max_batched_tokens = settings.max_batched_tokens;
  made.chunked_prefill = settings.chunked_prefill;
  made.prefix_caching = settings.prefix_caching;
  made.watermark = settings.watermark;
  made.queue_order = chosen(settings.queue_order, kQueueOrders);
  made.fairness_bound = settings.fairness_bound;
  made.preemption_order = chosen(settings.preemption_order, kPreemptionOrders);
  made.queue_delay = settings.queue_delay;
  made.prefill_share = settings.prefill_share;
  made.prefill_share_min = settings.prefill_share_min;
  made.prefill_share_max = settings.prefill_share_max;
  return made;
}

simulation::PoolSpec pool_of(const config::PoolSettings& settings) {
  simulation::PoolSpec made;
  made.name = settings.name;
  made.role = chosen(settings.role, kRoles);
  made.engine = engine_of(settings.engine);
  made.replicas = settings.replicas;
  made.min_replicas = settings.min_replicas;
  made.max_replicas = settings.max_replicas;
  made.gpus_per_replica = settings.gpus;
  made.price_per_gpu_hour = settings.price;
  made.start_up = settings.start_up;
  return made;
}

static_assert(config::kSegmentsMax <= signals::kSegmentsMax && config::kGeneralTarget == signals::kGeneralTarget);

signals::SegmentSlo slo_of(const config::SegmentSettings& settings) {
  signals::SegmentSlo made;
  made.name = settings.name;
  made.model = settings.model;
  made.traffic_class = settings.traffic_class;
  made.tenant = settings.tenant;
  made.prompt_min = settings.prompt_min;
  made.prompt_max = settings.prompt_max;
  made.target = {*settings.ttft, *settings.itl};  // loading filled in what the file left out
  made.goal = *settings.goal;
  return made;
}

simulation::Faults faults_of(const config::FaultSettings& settings) {
  simulation::Faults made;
  made.telemetry_delay = settings.telemetry_delay;
  made.telemetry_loss = settings.telemetry_loss;
  made.telemetry_lie = settings.telemetry_lie;
  made.crashes_per_replica_hour = settings.crashes_per_replica_hour;
  made.start_up_spread = settings.start_up_spread;
  made.slow_replicas = settings.slow_replicas;
  made.slow_factor = settings.slow_factor;
  made.refused_actions = settings.refused_actions;
  return made;
}

report::PoolInfo info_of(const simulation::PoolSpec& pool) {
  report::PoolInfo info;
  info.name = pool.name;
  info.role = pool.role;
  info.replicas = pool.replicas;
  info.min_replicas = pool.min_replicas;
  info.max_replicas = pool.max_replicas;
  info.gpus_per_replica = pool.gpus_per_replica;
  info.price_per_gpu_hour = pool.price_per_gpu_hour;
  info.start_up = pool.start_up;
  return info;
}

report::RunInfo info_of(const config::ReplaySettings& settings, const simulation::RunOptions& options,
                        const workload::Workload& workload, std::uint64_t skipped_rows) {
  report::RunInfo info;
  info.workload = workload.name;
  info.requests = workload.requests.size();
  info.duration = workload.span();
  info.rate_scale = settings.rate_scale;
  info.skipped_rows = skipped_rows;
  info.seed = settings.seed;
  const simulation::PoolSpec& first = options.pools.front();
  info.block_tokens = first.engine.block_tokens;
  info.kv_blocks = first.engine.kv_blocks;
  info.start_up = first.start_up;
  info.price_per_gpu_hour = first.price_per_gpu_hour;
  info.router = settings.router;
  info.slo = options.slo;
  for (const simulation::PoolSpec& pool : options.pools) {
    const std::string engine = pool.step_time->description();
    if (info.engine.empty())
      info.engine = engine;
    else if (engine != first.step_time->description())
      info.engine += fmt::format(" ({} pool: {})", pool.name, engine);
    info.pools.push_back(info_of(pool));
  }
  info.version = PENSTOCK_VERSION;
  return info;
}

// Where the traffic leaves what the pool's profile measured. What replicas of its role never do is not looked at.
capacity::ProfileCoverage coverage_of(const simulation::PoolSpec& pool, const workload::Workload& workload) {
  const auto* table = dynamic_cast<const engine::Table*>(pool.step_time.get());
  if (table == nullptr) return {};
  constexpr capacity::TokenRange kAny{0.0, std::numeric_limits<double>::infinity()};
  capacity::ProfileRanges ranges = capacity::ranges_of(table->profile());
  if (pool.role == signals::Role::kDecode) ranges.prompt = kAny;
  if (pool.role == signals::Role::kPrefill) {
    ranges.context = kAny;
    ranges.kv_tokens_max = kAny.high;
  }
  capacity::ProfileRangeCheck check{ranges, static_cast<double>(pool.engine.block_tokens) * pool.engine.kv_blocks};
  for (const workload::Request& request : workload.requests) check.add(request.input_tokens, request.output_tokens);
  return check.coverage();
}

}  // namespace

std::vector<std::string_view> all_policies() {
  std::vector<std::string_view> names = planner::policy_names();
  names.insert(names.begin(), kPenstock);
  names.push_back(kClairvoyant);
  return names;
}

core::Result<simulation::RunOptions> make_run_options(const config::ReplaySettings& settings) {
  simulation::RunOptions options;
  options.pools.clear();
  for (const config::PoolSettings& pool : settings.pools) {
    options.pools.push_back(pool_of(pool));
    auto model = engine::make_step_time_model(pool.engine.model);
    if (!model) return tl::make_unexpected(model.error());
    options.pools.back().step_time = *std::move(model);
  }
  options.router = chosen(settings.router, kRouters);
  options.slo.ttft = settings.slo_ttft;
  options.slo.itl = settings.slo_itl;
  options.slo_goal = settings.slo_goal;
  for (const config::SegmentSettings& segment : settings.slo_segments) options.slo_segments.push_back(slo_of(segment));
  options.model = settings.model;
  options.faults = faults_of(settings.faults);
  options.kv_bytes_per_token = settings.kv_bytes_per_token;
  options.kv_transfer_bytes_per_s = settings.kv_transfer_bytes_per_s;
  options.seed = settings.seed;
  options.series_points = settings.series_points;
  return options;
}

core::Result<ReplaySetup> prepare_replay(config::ReplaySettings settings) {
  auto options = make_run_options(settings);
  if (!options) return tl::make_unexpected(options.error());
  auto planner = make_planner_options(settings);
  if (!planner) return tl::make_unexpected(planner.error());
  auto traces = load_traces(settings);
  if (!traces) return tl::make_unexpected(traces.error());
  std::uint64_t skipped = 0;
  for (const Trace& trace : *traces) skipped += trace.report.skipped_rows;
  auto workload = join_traces(*std::move(traces), options->pools.front().engine.block_tokens);
  if (!workload) return tl::make_unexpected(workload.error());
  report::RunInfo info = info_of(settings, *options, *workload, skipped);
  double uncertainty = 1.0;
  for (const simulation::PoolSpec& pool : options->pools) {
    const capacity::ProfileCoverage coverage = coverage_of(pool, *workload);
    uncertainty = std::max(uncertainty, coverage.widening);
    for (const std::string& warning : coverage.warnings)
      info.notes.push_back(fmt::format("profile of the {} pool: {}", pool.name, warning));
  }
  return ReplaySetup{std::move(settings), *std::move(workload), *std::move(options),
                     std::move(info),     *std::move(planner),  uncertainty};
}

}  // namespace penstock::cli
