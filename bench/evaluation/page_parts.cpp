#include "evaluation/page_parts.h"

#include <fmt/format.h>

#include <vector>

#include "evaluation/targets.h"
#include "report/format.h"

namespace penstock::evaluation {

using namespace report;
namespace {

// "99.12 % (98.90 to 99.30)", "12.6 (12.1 to 13.0)"
std::string attainments(std::span<const Run> runs) {
  std::vector<double> figures;
  for (const Run& run : runs) figures.push_back(run.attainment * 100.0);
  const Spread spread = spread_of(figures);
  return fmt::format("{:.2f} % ({:.2f} to {:.2f})", spread.mean, spread.least, spread.most);
}
std::string hours(std::span<const Run> runs) {
  std::vector<double> figures;
  for (const Run& run : runs) figures.push_back(run.gpu_hours);
  const Spread spread = spread_of(figures);
  return fmt::format("{} ({} to {})", in_hours(spread.mean), in_hours(spread.least), in_hours(spread.most));
}

// Empty if the trace has one seed.
std::string seeds_row(const TraceEvaluation& trace) {
  const Run* own = at_goal(trace, kGoal);
  if (own == nullptr || own->of_seeds.empty()) return {};
  std::string row = fmt::format("| {} | {} | {} | {} |", trace.title, own->of_seeds.size(), attainments(own->of_seeds),
                                hours(own->of_seeds));
  const Run* peer = run_of_best_peer(trace, kGoal);
  if (peer == nullptr || peer->of_seeds.empty()) return row + " – | – | – |\n";
  return row + fmt::format(" {} | {} | {} |\n", code(peer->policy), attainments(peer->of_seeds), hours(peer->of_seeds));
}

std::string ablation_row(const AblationRow& row, const AblationRow& shipped) {
  const Run* run = at_goal(row.runs, kGoal);
  if (run == nullptr) return {};
  const Run* usual = at_goal(shipped.runs, kGoal);
  const auto cost = row.runs.size() > 1 ? hours_of(cost_of(row.runs, kGoal)) : std::nullopt;
  return fmt::format(
      "| {}{} | {} | {} | {} | {} | {:.0f} |\n", row.name, row.flags.empty() ? "" : fmt::format(" (`{}`)", row.flags),
      percent(run->attainment), in_hours(run->gpu_hours),
      usual == nullptr ? "–" : fmt::format("{:+.0f} %", 100.0 * (run->gpu_hours / usual->gpu_hours - 1.0)),
      ratio(cost, hours_of(cost_of(shipped.runs, kGoal))), run->direction_changes_per_day);
}

}  // namespace

std::string percent_or_dash(std::optional<double> share) { return share ? percent(*share) : "–"; }
std::string in_hours(double gpu_hours) { return fmt::format("{:#.3g}", gpu_hours); }
std::string in_hours(const std::optional<Cost>& cost) {
  return cost ? (cost->at_most ? "≤ " : "") + in_hours(cost->gpu_hours) : "–";
}
std::string code(std::string_view name) { return fmt::format("`{}`", name); }

std::string in_seconds(core::Duration time) { return format_seconds(core::to_seconds(time)); }

std::string ratio(std::optional<double> ours, std::optional<double> theirs) {
  return ours && theirs && *theirs > 0.0 ? fmt::format("{:.2f}", *ours / *theirs) : "–";
}

std::string seeds_section(const Evaluation& evaluation) {
  std::string rows;
  for (const TraceEvaluation& trace : evaluation.traces) rows += seeds_row(trace);
  if (rows.empty()) return {};
  return "\n## Several seeds\n\n"
         "Mean and range over the seeds. The router, the built-in workload and scaled copies of a trace use the seed. "
         "Penstock has the\ngoal of 99 %, the best peer the cheapest setting that reached 99 %.\n\n"
         "| trace | seeds | Penstock: attainment | GPU-hours | best peer | attainment | GPU-hours |\n"
         "|---|---|---|---|---|---|---|\n" +
         rows;
}

std::string both_simulators_section(const Evaluation& evaluation) {
  constexpr std::string_view kHeading = "\n## ";
  std::string tables;
  for (std::size_t at = evaluation.judged.find(kHeading); at != std::string::npos;) {
    const std::size_t next = evaluation.judged.find(kHeading, at + 1);
    tables += "\n### " + evaluation.judged.substr(at + kHeading.size(), next - at - kHeading.size());
    at = next;
  }
  if (tables.empty()) return {};
  return "\n## Both simulators\n\n"
         "The policies decide in the replay of NVIDIA Dynamo, a simulator that this project did not write, and in "
         "`penstock replay`. The tables are\nthose of [Judged by Dynamo's replay](judged-by-dynamo.md), which has the "
         "method and is written by `make judged-by-dynamo`.\n" +
         tables;
}

std::string ablation_section(const Evaluation& evaluation) {
  if (evaluation.ablations.empty()) return {};
  std::string text =
      "\n## Ablation\n\n"
      "Penstock with the goal of 99 % and one part disabled, or another one enabled. The last ratio compares GPU-hours "
      "at an "
      "attainment of 99 %,\nfrom runs with several goals; –: not reached, or one goal only. The integral of the error "
      "budget is a part of the backtest.\n";
  for (const AblationEvaluation& ablation : evaluation.ablations) {
    text += fmt::format(
        "\n{}:\n\n| part | attainment | GPU-hours | to shipped | ÷ shipped at 99 % | direction changes per day |\n"
        "|---|---:|---:|---:|---:|---:|\n",
        ablation.trace);
    for (const AblationRow& row : ablation.rows) text += ablation_row(row, ablation.rows.front());
  }
  return text;
}

std::string robustness_section(const Evaluation& evaluation) {
  if (evaluation.scenarios.empty()) return {};
  std::uint64_t failures = 0, broken = 0;
  std::string rows;
  for (const ScenarioEvaluation& scenario : evaluation.scenarios) {
    failures += scenario.scale_down_failures;
    broken += scenario.invariants_broken;
    const Run& run = scenario.run;
    rows += fmt::format("| {} | {} | {} | {} | {} | {} to {} | {:.0f} | {} | {} | {} |\n", scenario.workload,
                        scenario.name, percent(run.attainment), percent(scenario.best_possible),
                        in_hours(run.gpu_hours), run.replicas, run.peak_replicas, run.direction_changes_per_day,
                        format_count(run.failed), format_count(scenario.scale_down_failures),
                        scenario.invariants_broken == 0
                            ? "0"
                            : fmt::format("**{}** ({})", scenario.invariants_broken, scenario.first_broken));
  }
  return fmt::format(
             "\n## Robustness\n\n"
             "Penstock with the goal of 99 % under faults. Invariants, checked at every decision by a second "
             "implementation: within\n"
             "bounds; growth within its factor a minute; no shrinking on missing or old telemetry, on a hot KV cache, "
             "while a queue waits,\n"
             "while replicas start or drain, or when requests fail. In all: {} failed by scaling down, {} invariants "
             "broken. *Best possible*\nis the largest fixed fleet under the same fault.\n\n"
             "| workload | fault | attainment | best possible | GPU-hours | replicas | direction changes per day | "
             "failed "
             "| … by scaling down | invariants broken |\n|---|---|---:|---:|---:|---:|---:|---:|---:|---:|\n",
             format_count(failures), format_count(broken)) +
         rows;
}

}  // namespace penstock::evaluation
