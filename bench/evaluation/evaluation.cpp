#include "evaluation/evaluation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string_view>

#include "dispatch/refusal.h"

namespace penstock::evaluation {
namespace {

constexpr double kSecondsPerDay = 86400.0;

std::vector<Point> points_of(std::span<const Run> runs) {
  std::vector<Point> points;
  for (const Run& run : runs) points.push_back({run.attainment, run.gpu_hours});
  return points;
}

template <class Visit>
void for_each_run(const TraceEvaluation& trace, const Visit& visit) {
  for (const Run& run : trace.penstock.runs) visit(run);
  for (const PolicyRuns& peer : trace.peers)
    for (const Run& run : peer.runs) visit(run);
  for (const Run& run : trace.fixed.runs) visit(run);
  for (const Run& run : trace.oracle) visit(run);
}

// What the peer is charged on this trace for the settings of the others, on the mean; empty if it failed with each.
std::optional<double> charged_for_settings_of_others(const Evaluation& evaluation, const TraceEvaluation& trace,
                                                     const PolicyRuns& peer) {
  double sum = 0.0;
  int others = 0;
  bool works = false;
  const auto add = [&](const Run& run) {
    sum += charged(trace, run);
    ++others;
    works = works || run.attainment >= kTransferMin;
  };
  if (peer.parameter.empty() && !peer.runs.empty()) add(peer.runs.front());
  for (const TraceEvaluation& other : evaluation.traces) {
    if (other.name == trace.name || other.variant) continue;
    const std::optional<double> setting = tuned_setting(other, peer.policy);
    const std::optional<Run> run = setting ? run_at(peer, *setting) : std::nullopt;
    if (run) add(*run);
  }
  if (!works) return std::nullopt;
  return sum / others;
}

bool is_of_scaling_down(std::string_view reason) {
  using dispatch::RefusalReason;
  for (const auto refused : {RefusalReason::kContextLengthExceeded, RefusalReason::kQueueTimeout,
                             RefusalReason::kQueueFull, RefusalReason::kEnginesFull})
    if (reason == dispatch::to_string(refused)) return false;
  return reason != "prompt_exceeds_kv_cache" && reason != "replica_crashed";
}

// The cheapest run that reached the attainment; null if none did.
const Run* cheapest_run(std::span<const Run> runs, double attainment) {
  const Run* cheapest = nullptr;
  for (const Run& run : runs)
    if (run.attainment >= attainment && (cheapest == nullptr || run.gpu_hours < cheapest->gpu_hours)) cheapest = &run;
  return cheapest;
}

}  // namespace

const PolicyRuns* find_peer(const TraceEvaluation& trace, std::string_view policy) {
  for (const PolicyRuns& peer : trace.peers)
    if (peer.policy == policy) return &peer;
  return nullptr;
}

Run run_of(const decision::RunResult& result) {
  Run run;
  run.policy = result.policy;
  run.attainment = result.slo_attainment;
  run.gpu_hours = result.gpu_hours;
  run.bursts = result.bursts;
  if (result.duration_s > 0.0)
    run.direction_changes_per_day = static_cast<double>(result.direction_changes) * kSecondsPerDay / result.duration_s;
  for (const decision::TargetResult& target : result.targets) {
    run.requests += target.requests;
    run.misses += target.requests - target.met;
  }
  run.actions = result.scaling_actions;
  run.failed = result.failed;
  run.replicas = result.replicas;
  run.peak_replicas = result.peak_replicas;
  return run;
}

Run pooled(std::span<const Run> runs) {
  Run pool = runs.front();
  if (runs.size() == 1) return pool;
  pool.of_seeds.assign(runs.begin(), runs.end());
  const auto count = static_cast<double>(runs.size());
  const auto mean = [&](auto member) {
    double sum = 0.0;
    for (const Run& run : runs) sum += static_cast<double>(run.*member);
    return sum / count;
  };
  pool.gpu_hours = mean(&Run::gpu_hours);
  pool.direction_changes_per_day = mean(&Run::direction_changes_per_day);
  pool.actions = static_cast<std::uint64_t>(std::llround(mean(&Run::actions)));
  for (const Run& run : runs.subspan(1)) {
    pool.bursts.requests += run.bursts.requests;
    pool.bursts.met += run.bursts.met;
    pool.requests += run.requests;
    pool.misses += run.misses;
    pool.failed += run.failed;
    pool.replicas = std::min(pool.replicas, run.replicas);
    pool.peak_replicas = std::max(pool.peak_replicas, run.peak_replicas);
    pool.cpu_s += run.cpu_s;
  }
  pool.attainment =
      1.0 - static_cast<double>(pool.misses) / static_cast<double>(std::max<std::uint64_t>(pool.requests, 1));
  return pool;
}

std::optional<Cost> cost_of(std::span<const Run> runs, double attainment) {
  return cost_at(efficient(points_of(runs)), attainment);
}

std::optional<Rival> best_peer(const TraceEvaluation& trace, double attainment) {
  std::optional<Rival> best;
  for (const PolicyRuns& peer : trace.peers) {
    const auto cost = cost_of(peer.runs, attainment);
    if (cost && (!best || cost->gpu_hours < best->gpu_hours)) best = Rival{peer.policy, cost->gpu_hours};
  }
  return best;
}

const Run* run_of_best_peer(const TraceEvaluation& trace, double attainment) {
  const auto best = best_peer(trace, attainment);
  return best ? cheapest_run(find_peer(trace, best->name)->runs, attainment) : nullptr;
}

std::optional<Cost> oracle_cost(const TraceEvaluation& trace, double attainment) {
  std::optional<Cost> least;
  const auto consider = [&](const std::optional<Cost>& cost) {
    if (cost && (!least || cost->gpu_hours < least->gpu_hours)) least = cost;
  };
  std::vector<Point> all;
  for_each_run(trace, [&](const Run& run) { all.push_back({run.attainment, run.gpu_hours}); });
  consider(cost_at(efficient(std::move(all)), attainment));
  // The interpolated cost of a policy can be below that of all runs together.
  consider(cost_of(trace.penstock.runs, attainment));
  consider(cost_of(trace.fixed.runs, attainment));
  for (const PolicyRuns& peer : trace.peers) consider(cost_of(peer.runs, attainment));
  return least;
}

const Run* cheapest_fixed(const TraceEvaluation& trace) {
  if (const Run* cheapest = cheapest_run(trace.fixed.runs, kGoal)) return cheapest;
  const Run* best = nullptr;
  for (const Run& run : trace.fixed.runs)
    if (best == nullptr || run.attainment > best->attainment) best = &run;
  return best;
}

double charged(const TraceEvaluation& trace, const Run& run) {
  const Run* safe = cheapest_fixed(trace);
  return run.attainment >= kTransferMin || safe == nullptr ? run.gpu_hours : safe->gpu_hours;
}

double best_possible(const TraceEvaluation& trace) {
  double best = 0.0;
  for_each_run(trace, [&](const Run& run) { best = std::max(best, run.attainment); });
  return best;
}

const Run* at_goal(std::span<const Run> runs, double goal) {
  for (const Run& run : runs)
    if (run.setting && std::abs(*run.setting - goal) < 1e-6) return &run;
  return nullptr;
}

const Run* at_goal(const TraceEvaluation& trace, double goal) { return at_goal(trace.penstock.runs, goal); }

std::optional<double> tuned_setting(const PolicyRuns& peer) {
  const Run* cheapest = cheapest_run(peer.runs, kGoal);
  return cheapest == nullptr ? std::nullopt : cheapest->setting;
}

std::optional<double> tuned_setting(const TraceEvaluation& trace, std::string_view policy) {
  const PolicyRuns* peer = find_peer(trace, policy);
  return peer == nullptr ? std::nullopt : tuned_setting(*peer);
}

std::optional<Run> run_at(const PolicyRuns& peer, double setting) {
  const auto above = std::find_if(peer.runs.begin(), peer.runs.end(),
                                  [&](const Run& run) { return run.setting && *run.setting >= setting - 1e-9; });
  if (above == peer.runs.end()) return std::nullopt;
  if (std::abs(*above->setting - setting) < 1e-9) return *above;
  if (above == peer.runs.begin()) return std::nullopt;
  const Run& below = *(above - 1);
  const double share = (setting - *below.setting) / (*above->setting - *below.setting);
  const auto between = [&](double a, double b) { return a + share * (b - a); };
  Run run = below;
  run.setting = setting;
  run.attainment = 1.0 - std::exp(between(log_misses(below.attainment), log_misses(above->attainment)));
  run.gpu_hours = between(below.gpu_hours, above->gpu_hours);
  return run;
}

std::optional<Rival> best_peer_tuned_elsewhere(const Evaluation& evaluation, const TraceEvaluation& trace) {
  std::optional<Rival> best;
  for (const PolicyRuns& peer : trace.peers) {
    const auto cost = charged_for_settings_of_others(evaluation, trace, peer);
    if (cost && (!best || *cost < best->gpu_hours)) best = Rival{peer.policy, *cost};
  }
  const Run* safe = cheapest_fixed(trace);
  if (!best && safe != nullptr && evaluation.traces.size() > 1) best = Rival{"fixed fleet", safe->gpu_hours};
  return best;
}

std::optional<double> burst_attainment_of_peers(const TraceEvaluation& trace, double gpu_hours) {
  std::optional<double> best;
  for (const PolicyRuns& peer : trace.peers)
    for (const Run& run : peer.runs)
      if (const auto attained = run.bursts.attainment(); attained && run.gpu_hours <= gpu_hours)
        best = std::max(best.value_or(*attained), *attained);
  return best;
}

std::vector<std::string> dominated_by(const TraceEvaluation& trace, const Run& run) {
  std::vector<std::string> names;
  for (const PolicyRuns& peer : trace.peers)
    for (const Run& other : peer.runs)
      if (other.standard && other.attainment > run.attainment && other.gpu_hours < run.gpu_hours)
        names.push_back(peer.policy);
  return names;
}

std::vector<std::string> dominated_by_transferred(const Evaluation& evaluation, const TraceEvaluation& trace,
                                                  const Run& run) {
  std::vector<std::string> names;
  for (const PolicyRuns& peer : trace.peers)
    for (const TraceEvaluation& other : evaluation.traces) {
      if (other.variant || other.name == trace.name) continue;
      const auto setting = tuned_setting(other, peer.policy);
      const auto rival = setting ? run_at(peer, *setting) : std::nullopt;
      if (!rival || rival->attainment <= run.attainment || rival->gpu_hours >= run.gpu_hours) continue;
      names.push_back(peer.policy);
      break;
    }
  return names;
}

Spread spread_of(std::span<const double> figures) {
  const auto [least, most] = std::minmax_element(figures.begin(), figures.end());
  const double sum = std::accumulate(figures.begin(), figures.end(), 0.0);
  return {sum / static_cast<double>(figures.size()), *least, *most};
}

std::string cpu_report(const Evaluation& evaluation) {
  std::string text;
  const auto add = [&](std::string_view part, std::string_view policy, std::size_t runs, double cpu_s) {
    if (cpu_s > 0.0) text += fmt::format("{:<16} {:<24} {:3} runs {:8.1f} CPU s\n", part, policy, runs, cpu_s);
  };
  const auto add_runs = [&](std::string_view part, std::string_view policy, std::span<const Run> runs) {
    double cpu_s = 0.0;
    for (const Run& run : runs) cpu_s += run.cpu_s;
    add(part, policy, runs.size(), cpu_s);
  };
  for (const TraceEvaluation& trace : evaluation.traces) {
    add(trace.name, "preparation", 0, trace.preparation_cpu_s);
    add_runs(trace.name, trace.penstock.policy, trace.penstock.runs);
    for (const PolicyRuns& peer : trace.peers) add_runs(trace.name, peer.policy, peer.runs);
    add_runs(trace.name, "fixed fleets", trace.fixed.runs);
    add_runs(trace.name, "clairvoyant", trace.oracle);
  }
  for (const AblationEvaluation& ablation : evaluation.ablations)
    for (const AblationRow& row : ablation.rows) add_runs("ablation", row.name, row.runs);
  for (const ScenarioEvaluation& scenario : evaluation.scenarios)
    add("robustness", scenario.name, 1, scenario.run.cpu_s);
  return text + fmt::format("{:<50} {:8.1f} CPU s\n", "all, with preparations and searches", evaluation.cpu_s);
}

std::uint64_t scale_down_failures(const decision::RunResult& result) {
  std::uint64_t failures = 0;
  for (const decision::FailureCount& failure : result.failures)
    if (is_of_scaling_down(failure.reason)) failures += failure.requests;
  return failures;
}

}  // namespace penstock::evaluation
