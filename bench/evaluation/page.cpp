#include "evaluation/page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "report/format.h"
#include "report/ranking.h"

namespace penstock::evaluation {

using namespace report;

using decision::RunResult;

namespace {

std::string percent(double share) { return std::isfinite(share) ? fmt::format("{:.2f} %", share * 100.0) : "–"; }
std::string hours(const RunResult& run) { return fmt::format("{:.4g}", run.gpu_hours); }

std::string signed_points(double points) {
  const double rounded = std::round(points * 100.0) / 100.0;
  if (rounded == 0.0) return "±0.00";
  return fmt::format("{}{:.2f}", rounded < 0.0 ? "−" : "+", std::abs(rounded));
}

std::string times(double ratio) { return std::isfinite(ratio) ? fmt::format("{:.2f}×", ratio) : "∞×"; }

std::string gpu_hours_and_points(const Verdict& verdict) {
  return fmt::format("{} points, {} GPU-hours", signed_points(verdict.points), times(verdict.gpu_hours_ratio));
}

bool is_rule(const Evaluation& evaluation, const RunResult& run) {
  return run.policy != evaluation.policy && run.policy != "clairvoyant" && run.policy != "static";
}

// The rules of all traces, each once, in the order of the runs.
std::vector<std::string> rules_of(const Evaluation& evaluation) {
  std::vector<std::string> rules;
  for (const TraceEvaluation& trace : evaluation.traces)
    for (const RunResult& run : trace.results)
      if (is_rule(evaluation, run) && std::find(rules.begin(), rules.end(), run.policy) == rules.end())
        rules.push_back(run.policy);
  return rules;
}

std::string targets_line(const EvaluationTargets& targets, std::string_view against) {
  const auto share = [](double value) { return fmt::format("{:g} %", value * 100.0); };
  if (against == "static frontier") return "static frontier: at its GPU-hours, no static fleet has a higher attainment";
  if (against == "clairvoyant")
    return fmt::format("clairvoyant: at most {:g} point{} below, at most {:g}× its GPU-hours",
                       targets.clairvoyant_points, targets.clairvoyant_points == 1.0 ? "" : "s",
                       targets.clairvoyant_gpu_hours);
  if (against == "static at peak size")
    return fmt::format(
        "static at peak size: at least {} of its attainment for at most {:g}× its GPU-hours (whole days)",
        share(targets.peak_attainment), targets.peak_gpu_hours);
  if (against == "flapping")
    return fmt::format("flapping: at most {:g} direction changes per hour", targets.direction_changes_per_hour);
  return fmt::format("`{}`", against);
}

std::string heading(const Evaluation& evaluation) {
  const EvaluationTargets& targets = evaluation.targets;
  std::string text =
      "# Evaluation\n\n"
      "Written by `make evaluate`: Penstock's own policy compared with static fleets, the "
      "policies\n"
      "of other projects ([policies.md](policies.md)) and a policy that knows the trace in advance, on the same traces "
      "and the\n"
      "same engine. Every figure and every verdict on this page is computed from these runs. No parameter of a policy\n"
      "is set for a trace.\n";
  if (!evaluation.window.empty()) text += fmt::format("\n**This is a quick look:** {}.\n", evaluation.window);
  if (!evaluation.traces.empty()) {
    const RunInfo& info = evaluation.traces.front().info;
    text += fmt::format(
        "\n- SLO: TTFT {} and mean ITL {}, both, for each request; attainment is the share of requests within both.\n"
        "- Engine: `{}` step times, blocks of {} tokens, {} per replica; router `{}`; seed {}.\n"
        "- A replica is ready {} after its request, and costs GPU-hours from the request on; between {} and {} "
        "replicas.\n",
        format_seconds(core::to_seconds(info.slo.ttft)), format_seconds(core::to_seconds(info.slo.itl)), info.engine,
        info.block_tokens, format_count(info.kv_blocks), info.router, info.seed,
        format_seconds(core::to_seconds(info.start_up)), info.pools.front().min_replicas,
        info.pools.front().max_replicas);
  }
  return text +
         fmt::format(
             "- All policies start from the same fleet: the size for the mean rate of the trace by a load test of one "
             "replica.\n"
             "- Rates are scaled so that the peak needs about 8 to 20 replicas. *Peak size* is the smallest "
             "static fleet\n"
             "  to which more replicas add less than 0.1 points.\n"
             "- Another project's policy is beaten with at most {:g}× its violations at no more GPU-hours, or "
             "with at\n"
             "  least its attainment at no more than {:g}× its GPU-hours.\n",
             targets.rule_violations, targets.rule_gpu_hours);
}

std::string traces_table(const Evaluation& evaluation) {
  std::string text =
      "\n## Traces\n\n"
      "| trace | requests | duration | rate | from | peak size | attainment of the largest static fleet |\n"
      "|---|---:|---:|---:|---:|---:|---:|\n";
  for (const TraceEvaluation& trace : evaluation.traces) {
    const RunResult* peak = peak_fleet(trace.frontier);
    text += fmt::format("| {} | {} | {} | ×{:g} | {} | {} | {} |\n", trace.title, format_count(trace.info.requests),
                        format_seconds(core::to_seconds(trace.info.duration)), trace.info.rate_scale,
                        trace.info.pools.front().replicas, peak == nullptr ? "–" : fmt::format("{}", peak->replicas),
                        trace.frontier.empty() ? "–" : percent(trace.frontier.back().slo_attainment));
  }
  return text;
}

std::string targets_table(const Evaluation& evaluation) {
  const std::vector<Judgement> judgements = judge(evaluation);
  std::size_t reached = 0, judged = 0;
  for (const Judgement& judgement : judgements) {
    judged += judgement.reached ? 1 : 0;
    reached += judgement.reached.value_or(false) ? 1 : 0;
  }
  std::string text =
      fmt::format("\n## Targets\n\n`{}` reached {} of {}.\n\n| against |", evaluation.policy, reached, judged);
  std::string rule = "\n|---|";
  for (const TraceEvaluation& trace : evaluation.traces) {
    text += fmt::format(" {} |", trace.title);
    rule += "---|";
  }
  text += rule;
  std::string against;
  for (const Judgement& judgement : judgements) {
    if (judgement.against != against) {
      against = judgement.against;
      text += fmt::format("\n| {} |", targets_line(evaluation.targets, against));
    }
    text += fmt::format(" {}{} |",
                        !judgement.reached   ? ""
                        : *judgement.reached ? "reached: "
                                             : "**not reached**: ",
                        judgement.figures);
  }
  return text + "\n";
}

std::string trace_section(const Evaluation& evaluation, const TraceEvaluation& trace, std::string_view charts) {
  std::string text = fmt::format(
      "\n## {0}\n\n![SLO attainment against GPU-hours]({1}/evaluation-{2}.svg)\n\n"
      "| policy | SLO attainment | violations | GPU-hours | replicas | actions | direction changes/h | points above "
      "static "
      "fleets | points to the clairvoyant | × its GPU-hours |\n|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n",
      trace.title, charts, trace.name);
  const RunResult* clairvoyant = find_run(trace.results, "clairvoyant");
  for (const RankedResult& ranked : rank(trace.results)) {
    const RunResult& run = *ranked.result;
    const std::string bold = run.policy == evaluation.policy ? "**" : "";
    std::string points = "–", foreseen = "–", cost = "–";
    if (!trace.frontier.empty()) points = signed_points(against_frontier(run, trace.frontier).points);
    if (clairvoyant != nullptr && clairvoyant != &run) {
      const Verdict verdict = against_clairvoyant(run, *clairvoyant, evaluation.targets);
      foreseen = signed_points(verdict.points);
      cost = fmt::format("{:.2f}", verdict.gpu_hours_ratio);
    }
    text += fmt::format("| {0}{1}{0} | {2} | {3} | {4} | {5} to {6} | {7} | {8:.1f} | {9} | {10} | {11} |\n", bold,
                        ranked.label, percent(run.slo_attainment), format_count(violations(run)), hours(run),
                        run.replicas, run.peak_replicas, format_count(run.scaling_actions),
                        direction_changes_per_hour(run), points, foreseen, cost);
  }
  return text;
}

std::string scenarios_table(const Evaluation& evaluation) {
  if (evaluation.scenarios.empty()) return {};
  std::uint64_t failures = 0, broken = 0;
  std::string rows;
  for (const ScenarioEvaluation& scenario : evaluation.scenarios) {
    failures += scenario.scale_down_failures;
    broken += scenario.invariants_broken;
    const RunResult& run = scenario.result;
    rows += fmt::format("| {} | {} | {} | {} | {} to {} | {} | {:.1f} | {} | {} | {} |\n", scenario.workload,
                        scenario.name, percent(run.slo_attainment), hours(run), run.replicas, run.peak_replicas,
                        scenario.frontier_points ? signed_points(*scenario.frontier_points) : "–",
                        direction_changes_per_hour(run), format_count(run.failed),
                        format_count(scenario.scale_down_failures),
                        scenario.invariants_broken == 0
                            ? "0"
                            : fmt::format("**{}** ({})", scenario.invariants_broken, scenario.first_broken));
  }
  return fmt::format(
             "\n## Robustness\n\n"
             "`{}` under faults. Invariants, checked at every decision by a watcher of its "
             "own:\n"
             "within bounds; growth within its factor a minute; no shrinking on missing or old telemetry, on a hot KV\n"
             "cache, while a queue waits, while replicas start or drain, or when requests fail. In all: {} failed by\n"
             "scaling down, {} invariants broken.\n\n"
             "| workload | fault | SLO attainment | GPU-hours | replicas | points above static fleets | direction "
             "changes/h "
             "| failed | … by scaling down | invariants broken |\n|---|---|---:|---:|---:|---:|---:|---:|---:|---:|\n",
             evaluation.policy, format_count(failures), format_count(broken)) +
         rows;
}

}  // namespace

std::vector<Judgement> judge(const Evaluation& evaluation) {
  std::vector<Judgement> judgements;
  const EvaluationTargets& targets = evaluation.targets;
  const auto each = [&](const std::string& against, const auto& judged) {
    for (const TraceEvaluation& trace : evaluation.traces) {
      Judgement judgement{against, trace.name, "–", {}};
      if (const RunResult* run = find_run(trace.results, evaluation.policy)) judged(trace, *run, judgement);
      judgements.push_back(std::move(judgement));
    }
  };
  each("static frontier", [](const TraceEvaluation& trace, const RunResult& run, Judgement& judgement) {
    if (trace.frontier.empty()) return;
    const Verdict verdict = against_frontier(run, trace.frontier);
    judgement.figures = signed_points(verdict.points) + " points";
    judgement.reached = verdict.reached;
  });
  each("clairvoyant", [&](const TraceEvaluation& trace, const RunResult& run, Judgement& judgement) {
    const RunResult* clairvoyant = find_run(trace.results, "clairvoyant");
    if (clairvoyant == nullptr) return;
    const Verdict verdict = against_clairvoyant(run, *clairvoyant, targets);
    judgement.figures = gpu_hours_and_points(verdict);
    judgement.reached = verdict.reached;
  });
  each("static at peak size", [&](const TraceEvaluation& trace, const RunResult& run, Judgement& judgement) {
    const RunResult* fleet = peak_fleet(trace.frontier);
    if (fleet == nullptr) return;
    const Verdict verdict = against_peak_fleet(run, *fleet, targets);
    judgement.figures =
        fmt::format("{} of its attainment, {} GPU-hours", percent(run.slo_attainment / fleet->slo_attainment),
                    times(verdict.gpu_hours_ratio));
    if (trace.day_long) judgement.reached = verdict.reached;
  });
  for (const std::string& rule : rules_of(evaluation))
    each(rule, [&](const TraceEvaluation& trace, const RunResult& run, Judgement& judgement) {
      const RunResult* other = find_run(trace.results, rule);
      if (other == nullptr) return;
      const Verdict verdict = against_rule(run, *other, targets);
      judgement.figures =
          fmt::format("{} violations, {} GPU-hours", times(verdict.violations_ratio), times(verdict.gpu_hours_ratio));
      judgement.reached = verdict.reached;
    });
  each("flapping", [&](const TraceEvaluation&, const RunResult& run, Judgement& judgement) {
    judgement.figures = fmt::format("{:.1f} per hour", direction_changes_per_hour(run));
    judgement.reached = direction_changes_per_hour(run) <= targets.direction_changes_per_hour;
  });
  return judgements;
}

std::string evaluation_markdown(const Evaluation& evaluation, std::string_view charts) {
  std::string text = heading(evaluation);
  if (!evaluation.traces.empty()) text += traces_table(evaluation) + targets_table(evaluation);
  for (const TraceEvaluation& trace : evaluation.traces) text += trace_section(evaluation, trace, charts);
  text += scenarios_table(evaluation);
  return text + fmt::format("\n## Command\n\n`{}`\n", evaluation.command);
}

}  // namespace penstock::evaluation
