#include "evaluation/page.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "evaluation/page_parts.h"
#include "evaluation/targets.h"
#include "evaluation/trace_runs.h"
#include "planner/policy.h"
#include "report/format.h"

namespace penstock::evaluation {

using namespace report;
namespace {

// "0.87 (`keda-tokens`)"
std::string against(std::optional<double> ours, const std::optional<Rival>& rival) {
  if (!rival) return "–";
  return fmt::format("{} ({})", ratio(ours, rival->gpu_hours), code(rival->name));
}

std::string heading(const Evaluation& evaluation) {
  std::string text =
      "# Evaluation\n\n"
      "Written by `make evaluate`. The page compares Penstock's policy with fixed fleets, with the policies of other "
      "projects\n"
      "([policies.md](policies.md)) and with a policy that knows the trace in advance, on recorded traffic. Every "
      "figure "
      "and every verdict\n"
      "is computed from these runs. The policies in a simulator that this project did not write, and the same runs in "
      "this one:\n[Judged by Dynamo's replay](judged-by-dynamo.md).\n";
  if (evaluation.quick)
    text +=
        "\n**This is a quick look** (`QUICK=1`): hours of the days, there without the peers that attain little, few "
        "settings "
        "of each policy,\none engine, and one seed of recorded traces. Sampling noise is larger than in the whole "
        "evaluation.\n";
  return text;
}

std::string summary(const Evaluation& evaluation) {
  std::string text =
      "\n## GPU-hours at an SLO attainment of 99 %\n\n"
      "Penstock's GPU-hours at 99 %, and their ratio to those of others at the same attainment. Below 1.00 Penstock is "
      "cheaper.\n\n"
      "| trace | Penstock | ÷ best peer tuned here | ÷ best peer tuned elsewhere | ÷ best fixed fleet | ÷ fixed fleet "
      "of "
      "the first half | ÷ oracle | oracle ÷ best peer tuned here | attainment delivered for the goal of 99 % | "
      "direction changes per day |\n"
      "|---|---:|---|---|---:|---:|---:|---:|---:|---:|\n";
  for (const TraceEvaluation& trace : evaluation.traces) {
    const auto cost = cost_of(trace.penstock.runs, kGoal);
    const auto ours = hours_of(cost);
    const auto oracle = hours_of(oracle_cost(trace, kGoal));
    const auto rival = best_peer(trace, kGoal);
    const Run* shipped = at_goal(trace, kGoal);
    std::optional<double> charge, first_half;
    if (shipped != nullptr) charge = charged(trace, *shipped);
    if (trace.first_half) first_half = charged(trace, *trace.first_half);
    text += fmt::format(
        "| {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |\n", trace.title, in_hours(cost), against(ours, rival),
        trace.variant ? "–" : against(charge, best_peer_tuned_elsewhere(evaluation, trace)),
        ratio(ours, hours_of(cost_of(trace.fixed.runs, kGoal))), ratio(ours, first_half), ratio(ours, oracle),
        rival ? ratio(oracle, rival->gpu_hours) : "–", shipped == nullptr ? "–" : percent(shipped->attainment),
        shipped == nullptr ? "–" : fmt::format("{:.0f}", shipped->direction_changes_per_day));
  }
  return text +
         fmt::format(
             "\n"
             "- **Tuned here**: each peer has the setting that is the cheapest on this trace, which an operator "
             "does not know in advance.\n"
             "  Penstock has one setting, its goal.\n"
             "- **Tuned elsewhere**: each peer has the setting that was the cheapest at 99 % on another trace; "
             "the mean over all other\n"
             "  traces. A run below {} is charged the cheapest fixed fleet that reaches 99 % instead, as is "
             "Penstock's run with the goal\n"
             "  of 99 %. A peer that fails with all these settings is left out.\n"
             "- **Best fixed fleet**: known only in hindsight. **Of the first half**: the smallest fleet that "
             "reached 99 % in the first\n"
             "  half of the trace, for lack of a recorded day before. Below {} on the whole trace it is charged "
             "as above.\n"
             "- **Oracle**: the cheapest of all runs on the trace, `clairvoyant` included, which knows the future. Its "
             "ratio to the best peer shows\n"
             "  how much a policy can gain at all.\n"
             "- GPU-hours between two runs of a policy are interpolated, linearly in the logarithm of the share "
             "of misses, along its\n"
             "  efficient runs. ≤: no run came close from below, and another setting may cost less. –: no setting "
             "reached it.\n",
             percent(kTransferMin), percent(kTransferMin));
}

std::string cell(const Verdict& verdict) {
  if (!verdict.reached) return verdict.figure;
  if (*verdict.reached) return verdict.figure;
  return verdict.figure + " **✗**" + (verdict.beside.empty() ? "" : fmt::format(" ({})", verdict.beside));
}

std::string targets_table(const Evaluation& evaluation) {
  const std::vector<Target> targets = targets_of(evaluation);
  std::size_t reached = 0, judged = 0;
  for (const Target& target : targets) {
    judged += target.applies() ? 1 : 0;
    reached += target.reached() ? 1 : 0;
  }
  std::string text = fmt::format(
      "\n## Targets\n\nPenstock has its default settings and the goal of 99 % on all traces; GPU-hours at 99 % are "
      "interpolated over several goals.\nIt reached {} of {} targets; ✗ marks what misses its target, with the figure "
      "that the oracle, the best peer or the best run has instead.\nWhere the oracle misses a target, no run on this "
      "trace reached it. The names are those of the [traces](#method).\n\n| | target | result | |\n|---|---|---|---|\n",
      reached, judged);
  for (const Target& target : targets) {
    std::string results;
    for (const Verdict& verdict : target.verdicts)
      results += fmt::format("{}{}: {}", results.empty() ? "" : "; ", verdict.trace, cell(verdict));
    text += fmt::format("| {} | {} | {} | {} |\n", target.name, target.bar, results.empty() ? "not measured" : results,
                        !target.applies()  ? ""
                        : target.reached() ? "reached"
                                           : "**not reached**");
  }
  return text;
}

// "8", or "5 + 1" of two pools.
std::string first_fleet(const RunInfo& info) {
  std::vector<std::uint32_t> replicas;
  for (const PoolInfo& pool : info.pools) replicas.push_back(pool.replicas);
  return fmt::format("{}", fmt::join(replicas, " + "));
}

// "all", "the busiest 1 h", "all, with 3 seeds"
std::string replayed(const TraceEvaluation& trace) {
  const std::string part = trace.notes.empty() ? "all" : trace.notes;
  return trace.seeds == 1 ? part : fmt::format("{}, with {} seeds", part, trace.seeds);
}

std::vector<std::string> swept_on_days() {
  std::vector<std::string> names;
  for (const std::string_view policy : planner::policy_names()) {
    const SweptParameter* parameter = swept_parameter(policy);
    if (parameter != nullptr && parameter->rank == Rank::kAlways) names.push_back(code(policy));
  }
  return names;
}

std::string settings(const Evaluation& evaluation) {
  if (evaluation.traces.empty()) return {};
  const RunInfo& info = evaluation.traces.front().info;
  std::string text = fmt::format(
      "\n## Method\n\n"
      "- SLO: TTFT {} and mean ITL {}, both, for each request; attainment is the share of requests within both.\n"
      "- Engine, unless stated: `{}` step times, blocks of {} tokens, {} per replica; router `{}`, for all policies; "
      "seed {}; between {} and {} replicas.\n"
      "- A replica is ready {} after its request unless the trace states another start-up, and costs GPU-hours from "
      "the "
      "request on.\n"
      "- All policies start with the smallest fixed fleet that reaches 99 % in the first ten minutes. Scores, "
      "GPU-hours "
      "included, begin\n  after 2 × start-up + 3 min (`--score-from`).\n"
      "- *Spread*: longest time by which the copies of a trace are moved that `--rate-scale` superposes "
      "(`--rate-scale-spread`). The ServeGen\n  days are samples of few requests per second, and a service of the "
      "scaled "
      "rate does not have their noise.\n"
      "- A peer is swept over the setting that its table names; the others have none and run once. Runs are placed "
      "where they enclose\n  95, 98, 99 and 99.5 %. On days, with Claude Code and in variants of Azure's hour "
      "(start-up, "
      "engine, pools), Penstock runs with\n  two to four goals and fewer peers with fewer settings; on days these "
      "are {}.\n"
      "- With several seeds, attainment is that of all requests of all seeds, and GPU-hours are the mean: a setting of "
      "a peer cannot\n  fit the noise of one seed. Each seed has its own first fleet.\n"
      "- `clairvoyant` searches by simulation, with at most 32 million simulated requests for each goal, 16 million in "
      "variants of\n  Azure's hour, and 4 million on days, for the goal of 99 % only. More may find less.\n"
      "- Penstock begins with figures of public traffic, which were measured on the three ServeGen traces of this "
      "page, and some of its\n  constants were chosen by runs on these traces; the decision records name them. No "
      "trace of this page is new to it.\n"
      "- The rates of the days are a compromise between the replicas at the peak and the time that the page takes.\n\n"
      "| trace | replayed | requests | duration | rate | spread | start-up | first fleet | best attainment |\n"
      "|---|---|---:|---:|---:|---:|---:|---:|---:|\n",
      in_seconds(info.slo.ttft), in_seconds(info.slo.itl), info.engine, info.block_tokens, format_count(info.kv_blocks),
      info.router, info.seed, info.pools.front().min_replicas, info.pools.front().max_replicas, "2 min",
      fmt::join(swept_on_days(), ", "));
  for (const TraceEvaluation& trace : evaluation.traces)
    text +=
        fmt::format("| {} (`{}`) | {} | {} | {} | ×{:g} | {} | {} | {} | {} |\n", trace.title, trace.name,
                    replayed(trace), format_count(trace.info.requests), in_seconds(trace.info.duration),
                    trace.info.rate_scale, trace.info.rate_scale > 1.0 ? in_seconds(trace.info.rate_scale_spread) : "–",
                    in_seconds(trace.info.start_up), first_fleet(trace.info), percent(best_possible(trace)));
  std::string flags;
  for (const TraceEvaluation& trace : evaluation.traces)
    if (!trace.flags.empty()) flags += fmt::format("- {}: `{}`\n", trace.title, trace.flags);
  return flags.empty() ? text : text + "\nFurther flags of `penstock replay`:\n\n" + flags;
}

// The setting with which the policy is the cheapest at 99 %, if it has one.
std::string setting_at_goal(const PolicyRuns& policy) {
  if (policy.parameter.empty()) return "–";
  const auto setting = tuned_setting(policy);
  return setting ? fmt::format("{} {:g}", policy.parameter, *setting) : policy.parameter;
}

double best_of(std::span<const Run> runs) {
  double best = 0.0;
  for (const Run& run : runs) best = std::max(best, run.attainment);
  return best;
}

std::string equal_attainment_row(const std::string& name, std::span<const Run> runs, const std::string& setting) {
  std::string row = fmt::format("| {} |", name);
  for (const double attainment : kComparedAttainments) row += fmt::format(" {} |", in_hours(cost_of(runs, attainment)));
  return row + fmt::format(" {} | {} |\n", percent(best_of(runs)), setting);
}

// The cheapest at 99 % first, then those that come closest.
std::vector<const PolicyRuns*> ranked_peers(const TraceEvaluation& trace) {
  std::vector<const PolicyRuns*> peers;
  for (const PolicyRuns& peer : trace.peers) peers.push_back(&peer);
  const auto rank = [](const PolicyRuns& peer) {
    const auto cost = cost_of(peer.runs, kGoal);
    return std::pair{cost ? cost->gpu_hours : 1e9, -best_of(peer.runs)};
  };
  std::stable_sort(peers.begin(), peers.end(), [&](const auto* a, const auto* b) { return rank(*a) < rank(*b); });
  return peers;
}

std::string equal_attainment_table(const TraceEvaluation& trace) {
  std::string text =
      "GPU-hours at equal attainment:\n\n"
      "| policy | 95 % | 98 % | 99 % | 99.5 % | best attainment | setting at 99 % "
      "|\n|---|---:|---:|---:|---:|---:|---|\n";
  text += equal_attainment_row("**penstock**", trace.penstock.runs, setting_at_goal(trace.penstock));
  std::vector<std::string> far;
  for (const PolicyRuns* peer : ranked_peers(trace)) {
    if (cost_of(peer->runs, kComparedAttainments[0]))
      text += equal_attainment_row(code(peer->policy), peer->runs, setting_at_goal(*peer));
    else if (!peer->runs.empty())
      far.push_back(fmt::format("{} {}", code(peer->policy), percent(best_of(peer->runs))));
  }
  text += equal_attainment_row("fixed fleet", trace.fixed.runs, setting_at_goal(trace.fixed));
  std::string row = "| oracle |";
  for (const double attainment : kComparedAttainments)
    row += fmt::format(" {} |", in_hours(oracle_cost(trace, attainment)));
  text += row + fmt::format(" {} | – |\n| **penstock** ÷ oracle |", percent(best_possible(trace)));
  for (const double attainment : kComparedAttainments)
    text += fmt::format(
        " {} |", ratio(hours_of(cost_of(trace.penstock.runs, attainment)), hours_of(oracle_cost(trace, attainment))));
  text += " | – |\n";
  if (far.empty()) return text;
  return text +
         fmt::format("\nBelow 95 % with every setting, the best attainment of each: {}.\n", fmt::join(far, ", "));
}

std::string shipped_row(const Run& run, const std::string& name) {
  return fmt::format("| {} | {} | {} | {} | {} | {} to {} | {} | {:.0f} |\n", name, percent(run.attainment),
                     percent_or_dash(run.bursts.attainment()), format_count(run.misses), in_hours(run.gpu_hours),
                     run.replicas, run.peak_replicas, format_count(run.actions), run.direction_changes_per_day);
}

std::string shipped_table(const TraceEvaluation& trace) {
  std::string text =
      "\nWith their default settings, the best attainment first; attainment *in bursts* is that of "
      "minutes whose rate is\nabove twice the mean of the ten minutes before. *Replicas* are those of the begin of the "
      "scores and the most at "
      "once.\nA *direction change* is a growth after a shrink or the reverse:\n\n"
      "| policy | attainment | in bursts | misses | GPU-hours | replicas | actions | direction changes per day |\n"
      "|---|---:|---:|---:|---:|---:|---:|---:|\n";
  std::vector<std::pair<const Run*, std::string>> rows;
  for (const Run& run : trace.penstock.runs)
    if (run.standard || &run == at_goal(trace, kCheapGoal))
      rows.emplace_back(&run, fmt::format("**penstock**, goal {:g} %", *run.setting * 100.0));
  for (const PolicyRuns& peer : trace.peers)
    for (const Run& run : peer.runs)
      if (run.standard) rows.emplace_back(&run, code(peer.policy));
  if (trace.first_half) rows.emplace_back(&*trace.first_half, "fixed fleet of the first half");
  for (const Run& run : trace.oracle)
    rows.emplace_back(&run, fmt::format("`clairvoyant`, goal {:g} %{}", *run.setting * 100.0,
                                        run.attainment < *run.setting ? ", not reached" : ""));
  std::stable_sort(rows.begin(), rows.end(),
                   [](const auto& a, const auto& b) { return a.first->attainment > b.first->attainment; });
  for (const auto& [run, name] : rows) text += shipped_row(*run, name);
  return text;
}

// What each peer attains with the settings that suit other traces best.
std::string transfers_table(const Evaluation& evaluation, const TraceEvaluation& trace) {
  if (trace.variant) return {};
  std::vector<const TraceEvaluation*> others;
  for (const TraceEvaluation& other : evaluation.traces)
    if (other.name != trace.name && !other.variant) others.push_back(&other);
  if (others.empty()) return {};
  std::string text =
      "\nAttainment for GPU-hours of peers with the settings that were the cheapest at 99 % on other traces:\n\n"
      "| peer, tuned on |";
  std::string line = "\n|---|";
  for (const TraceEvaluation* other : others) {
    text += fmt::format(" {} |", other->name);
    line += "---|";
  }
  text += line + "\n";
  for (const PolicyRuns* peer : ranked_peers(trace)) {
    std::string row = fmt::format("| {} |", code(peer->policy));
    bool any = false;
    for (const TraceEvaluation* other : others) {
      const auto setting = tuned_setting(*other, peer->policy);
      const auto run = setting ? run_at(*peer, *setting) : std::nullopt;
      any = any || run;
      row += run ? fmt::format(" {} for {} ({} {:g}) |", percent(run->attainment), in_hours(run->gpu_hours),
                               peer->parameter, *setting)
                 : " – |";
    }
    if (any) text += row + "\n";
  }
  return text;
}

std::string trace_section(const Evaluation& evaluation, const TraceEvaluation& trace, std::string_view charts) {
  return fmt::format("\n## {0}\n\n![SLO attainment against GPU-hours]({1}/evaluation-{2}.svg)\n\n", trace.title, charts,
                     trace.name) +
         equal_attainment_table(trace) + shipped_table(trace) + transfers_table(evaluation, trace);
}

}  // namespace

std::string evaluation_markdown(const Evaluation& evaluation, std::string_view charts) {
  std::string text = heading(evaluation);
  if (!evaluation.traces.empty()) text += summary(evaluation) + targets_table(evaluation);
  text += seeds_section(evaluation) + ablation_section(evaluation) + robustness_section(evaluation);
  text += both_simulators_section(evaluation) + settings(evaluation);
  for (const TraceEvaluation& trace : evaluation.traces) text += trace_section(evaluation, trace, charts);
  text += fmt::format("\n## Command\n\n`{}`\n", evaluation.command);
  if (evaluation.cpu_s > 0.0) text += fmt::format("\nIt took {:.0f} s of CPU time.\n", evaluation.cpu_s);
  return text;
}

}  // namespace penstock::evaluation
