#include "replay/trace_sizing.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <numeric>

#include "capacity/token_formula.h"
#include "core/enum_names.h"
#include "engine/engine.h"
#include "planner/policy.h"
#include "replay/fixed_fleet_run.h"
#include "replay/planner_setup.h"
#include "report/format.h"
#include "workload/transform.h"

namespace penstock::replay {
namespace {

using decision::RunResult;
using Progress = std::function<void(double share_done)>;

constexpr core::Duration kHour = std::chrono::hours{1}, kMinute = std::chrono::minutes{1};
constexpr std::size_t kHourMinutes = 60;
constexpr double kExpectedUtilisation = 0.85;            // Of the fleet with which a search begins.
constexpr double kSearchShare = 0.6, kPeakShare = 0.35;  // Of the work on one engine, for its progress.
constexpr std::string_view kTooLong = "prompt_exceeds_kv_cache";

Progress part_of(const Progress& progress, double from, double share) {
  if (!progress) return {};
  return [&progress, from, share](double done) { progress(from + share * done); };
}

std::uint64_t count_of_failures(const RunResult& result, std::string_view reason) {
  std::uint64_t requests = 0;
  for (const decision::FailureCount& failure : result.failures)
    if (failure.reason == reason) requests += failure.requests;
  return requests;
}

// Requests that no replica can ever serve, and the longest of all.
struct LongRequests {
  std::uint64_t too_long = 0, longest = 0;
};

LongRequests long_requests(const workload::Workload& workload, const engine::EngineConfig& config) {
  LongRequests found;
  for (const workload::Request& request : workload.requests) {
    engine::EngineRequest shape{};
    shape.input_tokens = request.input_tokens;
    shape.output_tokens = request.output_tokens;
    if (!engine::can_fit(config, shape)) ++found.too_long;
    found.longest = std::max(found.longest, std::uint64_t{request.input_tokens} + request.output_tokens);
  }
  return found;
}

std::string too_long_text(const LongRequests& found, std::uint64_t requests, const engine::EngineConfig& config) {
  using report::format_count;
  return fmt::format(
      "the KV cache of a replica holds {} tokens, and {} of {} requests ({}) do not fit; the longest has {} tokens: "
      "choose more GPUs for a replica (tp), a lower precision or a GPU with more memory",
      format_count(engine::context_tokens(config)), format_count(found.too_long), format_count(requests),
      report::format_share(static_cast<double>(found.too_long) / static_cast<double>(requests)),
      format_count(found.longest));
}

// A guess by mean lengths: it saves trials, and changes no result.
std::uint32_t expected_replicas(const workload::Workload& workload, double requests_per_s,
                                const simulation::RunOptions& options) {
  const simulation::PoolSpec& pool = options.pools.front();
  double input = 0.0, output = 0.0;
  for (const workload::Request& request : workload.requests) {
    input += request.input_tokens;
    output += request.output_tokens;
  }
  const auto requests = static_cast<double>(workload.requests.size());
  const capacity::TrafficShape shape{input / requests, output / requests, 0.0};
  const capacity::EngineLimits limits{static_cast<double>(pool.engine.max_sequences),
                                      static_cast<double>(pool.engine.max_batched_tokens),
                                      static_cast<double>(pool.engine.kv_blocks) * pool.engine.block_tokens};
  const auto capacity = capacity::token_capacity(*pool.step_time, shape, limits, options.slo);
  if (!capacity || capacity->requests_per_s <= 0.0) return 0;
  const double replicas = std::ceil(requests_per_s / (capacity->requests_per_s * kExpectedUtilisation));
  return static_cast<std::uint32_t>(std::clamp(replicas, 1.0, 1e6));
}

// Keeps a fleet as it is, and measures the share of the time in which its engines compute.
class BusyMeter final : public decision::Policy {
 public:
  BusyMeter(decision::Policy& policy, core::Duration interval) : policy_{policy}, interval_{interval} {}

  [[nodiscard]] std::string_view name() const override { return policy_.name(); }
  [[nodiscard]] core::Duration interval() const override { return interval_; }
  [[nodiscard]] decision::Decision decide(const signals::Observation& observation) override {
    for (const signals::PoolObservation& pool : observation.pools)
      for (const signals::ReplicaObservation& replica : pool.replicas)
        if (replica.sample) add(replica.replica, *replica.sample);
    return policy_.decide(observation);
  }

  [[nodiscard]] std::optional<double> busy() const {
    core::Duration busy{}, time{};
    for (const auto& [replica, seen] : replicas_) {
      busy += seen.last_busy - seen.first_busy;
      time += seen.last - seen.first;
    }
    if (time <= core::Duration{}) return std::nullopt;
    return std::min(1.0, core::to_seconds(busy) / core::to_seconds(time));
  }

 private:
  struct Seen {
    core::Instant first, last;
    core::Duration first_busy{}, last_busy{};
  };

  void add(std::uint32_t replica, const signals::EngineSample& sample) {
    const core::Duration busy = sample.iterations.busy();
    const auto [seen, is_new] = replicas_.try_emplace(replica, Seen{sample.sampled_at, sample.sampled_at, busy, busy});
    seen->second.last = sample.sampled_at;
    seen->second.last_busy = busy;
  }

  decision::Policy& policy_;
  core::Duration interval_;
  std::map<std::uint32_t, Seen> replicas_;
};

core::Result<std::optional<double>> measure_busy(const workload::Workload& workload,
                                                 const simulation::RunOptions& options, std::uint32_t replicas) {
  auto fixed = planner::make_policy("static", {});
  if (!fixed) return tl::make_unexpected(fixed.error());
  BusyMeter meter{**fixed, std::clamp<core::Duration>(workload.span() / 50, std::chrono::seconds{1}, kMinute)};
  const auto done = simulation::run(workload, meter, fixed_at(options, {replicas}));
  if (!done) return tl::make_unexpected(done.error());
  return meter.busy();
}

// Why no fleet reaches the goal, from the one with the highest attainment.
void explain(TraceSizing& sizing, const LongRequests& lengths, const simulation::RunOptions& options) {
  using report::format_milliseconds, report::format_share;
  const RunResult& best = *sizing.result;
  const double missed = (1.0 - options.slo_goal) * static_cast<double>(best.requests);
  const auto [ttft, itl] = std::pair{best.ttft_attainment, best.itl_attainment};
  const std::uint64_t too_long = count_of_failures(best, kTooLong);
  const std::string fleet = fmt::format("{} {}{}", best.replicas, best.replicas == 1 ? "replica" : "replicas",
                                        best.replicas == options.pools.front().max_replicas ? " (--max-replicas)" : "");
  if (static_cast<double>(too_long) > missed) {
    sizing.ruled_out = RuledOut::kKvCache;
    sizing.why = too_long_text(lengths, best.requests, options.pools.front().engine);
  } else if (static_cast<double>(best.failed) > missed && ttft >= options.slo_goal && itl >= options.slo_goal) {
    sizing.ruled_out = RuledOut::kFailures;
    sizing.why = fmt::format("{} of {} requests fail with {}", best.failed, best.requests, fleet);
  } else if (std::min(ttft, itl) >= options.slo_goal && best.slo_attainment < std::min(ttft, itl) && options.slo.e2e) {
    sizing.ruled_out = RuledOut::kE2e;
    sizing.why = fmt::format("{} of the requests keep the SLO at best, with {}; the p95 of the whole answer is {}",
                             format_share(best.slo_attainment), fleet, format_milliseconds(best.e2e_ms.p95));
  } else {
    const bool is_ttft = ttft <= itl;
    sizing.ruled_out = is_ttft ? RuledOut::kTtft : RuledOut::kItl;
    sizing.why =
        fmt::format("{} of the requests keep it at best, with {}; the p95 is {}", format_share(is_ttft ? ttft : itl),
                    fleet, format_milliseconds(is_ttft ? best.ttft_ms.p95 : best.itl_ms.p95));
  }
}

}  // namespace

const char* to_string(RuledOut ruled_out) {
  return core::name_of<RuledOut::kFailures>(ruled_out,
                                            {"none", "heads", "weights", "kv_cache", "ttft", "itl", "e2e", "failures"});
}

core::Result<BusiestHour> busiest_hour(const workload::Workload& workload, core::Duration scored_from) {
  BusiestHour hour;
  hour.requests = workload.requests.size();
  hour.requests_per_s = static_cast<double>(hour.requests) / std::max(1.0, core::to_seconds(workload.span()));
  if (workload.span() - scored_from <= kHour) return hour;
  std::vector<std::uint64_t> tokens(static_cast<std::size_t>(workload.span() / kMinute) + 1);
  for (const workload::Request& request : workload.requests)
    tokens[static_cast<std::size_t>(request.arrival.time_since_epoch() / kMinute)] +=
        std::uint64_t{request.input_tokens} + request.output_tokens;
  const auto first = static_cast<std::size_t>((scored_from + kMinute - core::Duration{1}) / kMinute);
  std::size_t best = first;
  std::uint64_t most = 0;
  for (std::size_t from = first; from < tokens.size(); ++from) {
    const auto begin = tokens.begin() + static_cast<std::ptrdiff_t>(from);
    const auto length = static_cast<std::ptrdiff_t>(std::min(kHourMinutes, tokens.size() - from));
    const std::uint64_t sum = std::accumulate(begin, begin + length, std::uint64_t{0});
    if (sum <= most) continue;
    most = sum;
    best = from;
  }
  hour.from = static_cast<std::int64_t>(best) * kMinute;
  auto cropped = workload::crop_window(workload, hour.from, hour.from + kHour);
  if (!cropped) return tl::make_unexpected(cropped.error());
  hour.workload = *std::move(cropped);
  hour.requests = hour.workload.requests.size();
  hour.requests_per_s = static_cast<double>(hour.requests) / core::to_seconds(kHour);
  return hour;
}

core::Result<TraceSizing> size_for_trace(const workload::Workload& workload, const BusiestHour& peak,
                                         const simulation::RunOptions& options, const Progress& progress) {
  PENSTOCK_ASSERT(options.pools.size() == 1 && !workload.requests.empty(), "a sizing has one pool, and requests");
  const engine::EngineConfig& engine = options.pools.front().engine;
  const LongRequests lengths = long_requests(workload, engine);
  TraceSizing sizing;
  sizing.too_long = lengths.too_long;
  const auto requests = static_cast<double>(workload.requests.size());
  // A gateway with limits may shorten requests, and segments have goals of their own: then only a run shows it.
  const bool decides = !options.dispatch && options.slo_segments.empty() && options.judged_from == core::kStart;
  if (decides && static_cast<double>(lengths.too_long) > (1.0 - options.slo_goal) * requests) {
    sizing.ruled_out = RuledOut::kKvCache;
    sizing.why = too_long_text(lengths, workload.requests.size(), engine);
    return sizing;
  }

  const std::uint32_t expected = expected_replicas(workload, peak.requests_per_s, options);
  auto found = find_fixed_fleet(workload, options, part_of(progress, 0.0, kSearchShare), expected);
  if (!found) return tl::make_unexpected(found.error());
  for (const auto& [fleet, result] : found->tried) sizing.trials.push_back({fleet[0], result.slo_attainment});
  const std::uint32_t replicas = found->chosen[0];
  if (const auto fewer = found->tried.find(FleetSizes{replicas - 1});
      found->reaches_goal && fewer != found->tried.end())
    sizing.one_fewer = fewer->second;
  sizing.result = std::move(found->tried.at(found->chosen));
  if (!found->reaches_goal) {
    explain(sizing, lengths, options);
    return sizing;
  }

  if (peak.is_whole_trace()) {
    sizing.peak_replicas = replicas;
  } else {
    simulation::RunOptions hour = options;
    hour.judged_from = core::kStart;
    const auto needed = find_fixed_fleet(peak.workload, hour, part_of(progress, kSearchShare, kPeakShare), replicas);
    if (!needed) return tl::make_unexpected(needed.error());
    if (needed->reaches_goal) sizing.peak_replicas = needed->chosen[0];
  }
  const auto busy = measure_busy(workload, options, replicas);
  if (!busy) return tl::make_unexpected(busy.error());
  sizing.busy = *busy;
  return sizing;
}

core::Result<RunResult> run_autoscaled(const workload::Workload& workload, simulation::RunOptions options,
                                       std::uint32_t replicas, const planner::PlannerOptions& planner,
                                       const Progress& progress) {
  options.series_points = 1;
  options.pools.front().replicas = replicas;
  const std::unique_ptr<decision::Policy> policy = make_penstock(planner, options);
  options.progress = progress;
  auto done = simulation::run(workload, *policy, options);
  if (done) done->policy = configuration::kPenstock;
  return done;
}

}  // namespace penstock::replay
