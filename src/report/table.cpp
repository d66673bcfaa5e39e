#include "report/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "report/answer.h"
#include "report/format.h"
#include "report/grid.h"
#include "report/ranking.h"
#include "report/token_cost.h"

namespace penstock::report {

using decision::RunResult;

namespace {

constexpr std::size_t kIndent = 2;         // Indentation of the second and later lines of a paragraph.
constexpr std::size_t kWidthMin = 60;      // Narrower terminals break the lines themselves.
constexpr std::size_t kNameWidthMax = 32;  // Columns of a policy's name; the JSON has the complete name.

std::string name_of(const RankedResult& ranked) { return cut_to_width(printable(ranked.label), kNameWidthMax); }

std::size_t width_of(const TableStyle& style) { return std::clamp(style.width, kWidthMin, kTableWidth); }

}  // namespace

std::string paragraph(const std::string& text, const TableStyle& style) {
  return wrapped(text, width_of(style), 0, kIndent);
}

std::string replayed_text(const RunInfo& info, bool has_segments) {
  std::string replayed = fmt::format("{}: {} requests in {}", printable(info.workload), format_count(info.requests),
                                     format_seconds(core::to_seconds(info.duration)));
  if (info.rate_scale != 1.0) replayed += fmt::format(" at x{:.4g} the recorded rate", info.rate_scale);
  if (info.rate_scale > 1.0)
    replayed += fmt::format(" (copies moved by up to {})", format_seconds(core::to_seconds(info.rate_scale_spread)));
  if (info.score_from > core::Duration{})
    replayed += fmt::format(", scored from {}", format_seconds(core::to_seconds(info.score_from)));
  replayed += fmt::format("; SLO: {} per request", format_limits(info.slo));
  if (has_segments) replayed += ", or the target of its segment";
  return replayed;
}

bool has_segments(const Report& report) {
  return std::any_of(report.results.begin(), report.results.end(),
                     [](const RunResult& result) { return result.targets.size() > 1; });
}

namespace {

std::string short_count(std::uint64_t count) {
  return count < 100'000 ? format_count(count) : format_quantity(static_cast<double>(count));
}

}  // namespace

std::string latency_text(const core::Summary& summary, double value) {
  return summary.max > 0.0 ? format_milliseconds(value) : "–";
}

std::string fleet_text(const RunResult& result) {
  const std::string awake =
      result.peak_replicas <= result.replicas && result.scaling_actions == 0
          ? fmt::format("{}", result.replicas)
          : fmt::format("{}→{} ~{}", result.replicas, result.peak_replicas, format_quantity(result.mean_replicas));
  std::string text = awake;
  if (result.mean_asleep > 0.0) text += fmt::format(" +{} asleep", format_quantity(result.mean_asleep));
  if (result.role_switches > 0) text += fmt::format(", {} switched", short_count(result.role_switches));
  return text;
}

namespace {

GridStyle grid_style(const TableStyle& style, bool best_first = true) {
  return {style.colour, best_first, width_of(style)};
}

std::string bare_milliseconds(const core::Summary& summary, double value) {
  return summary.max > 0.0 ? format_quantity(value) : "–";
}

std::string policies(const Report& report, const TableStyle& style) {
  Grid grid{{{"policy", true},
             {"replicas", true},
             {"SLO at-\ntainment"},
             {"TTFT\np50", false, 5, true},
             {"p95"},
             {"p99", false, 1},
             {"ITL ms\np50", false, 4, true},
             {"p95"},
             {"good-\nput/s", false, 3},
             {"GPU\nhours"},
             {"USD", false, 2},
             {"cache\nhits", false, 6},
             {"pre-\nempted", false, 8},
             {"failed"},
             {"actions", false, 7},
             {"speed\nreq/s", false, 9}},
            grid_style(style)};
  for (const RankedResult& ranked : rank(report.results)) {
    const RunResult& r = *ranked.result;
    grid.add({name_of(ranked), fleet_text(r), format_share(r.slo_attainment), latency_text(r.ttft_ms, r.ttft_ms.p50),
              latency_text(r.ttft_ms, r.ttft_ms.p95), latency_text(r.ttft_ms, r.ttft_ms.p99),
              bare_milliseconds(r.itl_ms, r.itl_ms.p50), bare_milliseconds(r.itl_ms, r.itl_ms.p95),
              format_quantity(r.goodput_rps), format_quantity(r.gpu_hours), format_quantity(r.cost),
              format_share(r.prefix_hit_ratio), short_count(r.preemptions), short_count(r.failed),
              short_count(r.scaling_actions), format_quantity(r.simulated_requests_per_s)});
  }
  return grid.text();
}

// Only where tokens were delivered for a price.
bool has_costs(const Report& report) {
  return std::any_of(report.results.begin(), report.results.end(), [](const RunResult& result) {
    return result.cost > 0.0 && result.completed_tokens.input + result.completed_tokens.output > 0;
  });
}

std::string costs(const Report& report, const TableStyle& style) {
  Grid grid{{{"GPU cost in USD\nper 1M tokens", true}, {"input"}, {"output"}, {"within the SLO\ninput"}, {"output"}},
            grid_style(style)};
  const auto usd = [](const std::optional<double>& cost) {
    if (!cost) return std::string{"–"};
    return *cost < 0.995 ? fmt::format("{:#.2g}", *cost) : format_quantity(*cost);  // Prompt tokens cost little.
  };
  for (const RankedResult& ranked : rank(report.results)) {
    const TokenCosts each = token_costs(*ranked.result);
    grid.add({name_of(ranked), usd(each.input), usd(each.output), usd(each.input_at_slo), usd(each.output_at_slo)});
  }
  return grid.text();
}

std::string frontier(const Report& report, const TableStyle& style) {
  Grid grid{{{"static\nfleet", true},
             {"SLO\nattainment"},
             {"TTFT\np95"},
             {"p99", false, 1},
             {"ITL ms\np95"},
             {"good-\nput/s", false, 2},
             {"GPU\nhours"},
             {"USD"},
             {"failed"}},
            grid_style(style)};
  for (const RankedResult& ranked : rank(report.frontier)) {
    const RunResult& r = *ranked.result;
    grid.add({name_of(ranked), format_share(r.slo_attainment), latency_text(r.ttft_ms, r.ttft_ms.p95),
              latency_text(r.ttft_ms, r.ttft_ms.p99), bare_milliseconds(r.itl_ms, r.itl_ms.p95),
              format_quantity(r.goodput_rps), format_quantity(r.gpu_hours), format_quantity(r.cost),
              short_count(r.failed)});
  }
  return grid.text();
}

// One row for each target and policy.
std::string targets(const Report& report, const TableStyle& style) {
  constexpr std::ptrdiff_t kEndToEnd = 4;  // The column of this limit, where a target has one.
  std::vector<Grid::Column> columns{
      {"segment", true},      {"policy", true}, {"TTFT\nlimit", false, 3}, {"ITL\nlimit", false, 3},
      {"requests", false, 1}, {"goal"},         {"SLO\nattainment"},       {"TTFT\nmet", false, 2},
      {"ITL\nmet", false, 2}, {"", true}};
  const bool has_e2e = std::any_of(report.results.begin(), report.results.end(), [](const RunResult& result) {
    return std::any_of(result.targets.begin(), result.targets.end(),
                       [](const auto& each) { return each.target.e2e.has_value(); });
  });
  if (has_e2e) columns.insert(columns.begin() + kEndToEnd, Grid::Column{"e2e\nlimit", false, 3});
  Grid grid{std::move(columns), grid_style(style, false)};
  const std::vector<RankedResult> ranked = rank(report.results);
  for (std::size_t i = 0; i <= signals::kSegmentsMax; ++i) {
    for (const RankedResult& each : ranked) {
      if (each.result->targets.size() <= i) continue;
      const decision::TargetResult& target = each.result->targets[i];
      const auto kept = [&](std::uint64_t met) {
        if (target.requests == 0) return std::string{"–"};
        return format_share(static_cast<double>(met) / static_cast<double>(target.requests));
      };
      std::vector<std::string> cells{cut_to_width(printable(target.name), kNameWidthMax),
                                     name_of(each),
                                     format_seconds(core::to_seconds(target.target.ttft)),
                                     format_seconds(core::to_seconds(target.target.itl)),
                                     short_count(target.requests),
                                     format_goal(target.goal),
                                     kept(target.met),
                                     kept(target.ttft_met),
                                     kept(target.itl_met),
                                     target.attainment() < target.goal ? "missed" : ""};
      const auto& e2e = target.target.e2e;
      if (has_e2e) cells.insert(cells.begin() + kEndToEnd, e2e ? format_seconds(core::to_seconds(*e2e)) : "–");
      grid.add(std::move(cells));
    }
  }
  return grid.text();
}

std::string facts(const RunInfo& info, bool segments, const TableStyle& style) {
  std::string fleet;
  if (!info.engine.empty()) fleet += fmt::format("engine {}; ", printable(info.engine));
  fleet += fmt::format("{} KV blocks of {} tokens per replica; ", format_count(info.kv_blocks), info.block_tokens);
  if (!info.router.empty()) fleet += fmt::format("router {}; ", printable(info.router));
  fleet += fmt::format("start-up {}; ", format_seconds(core::to_seconds(info.start_up)));
  if (const PoolInfo* pool = info.pools.empty() ? nullptr : &info.pools.front();
      pool && pool->wake_time > core::Duration{})
    fleet += fmt::format("wake time {}, asleep at {} of the price; ", format_seconds(core::to_seconds(pool->wake_time)),
                         format_share(pool->sleep_price));
  if (const PoolInfo* pool = info.pools.empty() ? nullptr : &info.pools.front();
      pool && pool->switch_time > core::Duration{})
    fleet += fmt::format("role switch {}; ", format_seconds(core::to_seconds(pool->switch_time)));
  fleet += fmt::format("seed {}", info.seed);
  return paragraph(replayed_text(info, segments), style) + paragraph(fleet, style);
}

std::string failures(const RankedResult& ranked) {
  std::string text;
  for (const auto& failure : ranked.result->failures)
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", format_count(failure.requests), printable(failure.reason));
  return name_of(ranked) + ": failed: " + text;
}

std::string waits(const RankedResult& ranked) {
  const RunResult& result = *ranked.result;
  return fmt::format("{}: {} requests waited at the gateway, TTFT included: p50 {}, p95 {}, p99 {}", name_of(ranked),
                     format_count(result.waited), format_milliseconds(result.queue_wait_ms.p50),
                     format_milliseconds(result.queue_wait_ms.p95), format_milliseconds(result.queue_wait_ms.p99));
}

constexpr std::size_t kTenantsShown = 10;

// The tenants with most tokens.
std::string tenants(const Report& report, const TableStyle& style) {
  Grid grid{{{"policy", true},
             {"tenant", true},
             {"requests"},
             {"refused", false, 2},
             {"prompt\ntokens"},
             {"cached\ntokens", false, 3},
             {"output\ntokens"},
             {"budget\nused", false, 1},
             {"token\nUSD"},
             {"GPU\nUSD"}},
            grid_style(style)};
  for (const RankedResult& ranked : rank(report.results)) {
    std::vector<decision::TenantResult> shown = ranked.result->tenants;
    std::stable_sort(shown.begin(), shown.end(), [](const auto& a, const auto& b) {
      return a.prompt_tokens + a.output_tokens > b.prompt_tokens + b.output_tokens;
    });
    if (shown.size() > kTenantsShown) shown.resize(kTenantsShown);
    for (const decision::TenantResult& tenant : shown) {
      const auto gpu_cost = gpu_cost_of(tenant, *ranked.result);
      grid.add({name_of(ranked), printable(tenant.name), short_count(tenant.requests), short_count(tenant.refused),
                short_count(tenant.prompt_tokens), short_count(tenant.cached_tokens), short_count(tenant.output_tokens),
                tenant.budget_share ? format_share(*tenant.budget_share) : "–", format_quantity(tenant.token_cost),
                gpu_cost ? format_quantity(*gpu_cost) : "–"});
    }
  }
  return grid.text();
}

// A single tenant without price and budget has nothing that the policies' table lacks.
bool has_tenants(const Report& report) {
  return std::any_of(report.results.begin(), report.results.end(), [](const RunResult& result) {
    return result.tenants.size() > 1 ||
           std::any_of(result.tenants.begin(), result.tenants.end(), [](const decision::TenantResult& tenant) {
             return tenant.budget_share || tenant.token_cost > 0.0;
           });
  });
}

// Bursts are those of the trace, the same for all policies.
std::string bursts(const Report& report) {
  std::string shares;
  std::uint64_t requests = 0;
  for (const RankedResult& ranked : rank(report.results)) {
    const auto attainment = ranked.result->bursts.attainment();
    if (!attainment) continue;
    requests = ranked.result->bursts.requests;
    shares += fmt::format("{}{} {}", shares.empty() ? "" : ", ", name_of(ranked), format_share(*attainment));
  }
  if (shares.empty()) return {};
  return fmt::format(
      "SLO attainment of the {} requests in bursts (minutes above twice the rate of the 10 minutes before): {}",
      format_count(requests), shares);
}

std::string remarks(const Report& report, const TableStyle& style) {
  std::string text;
  if (const std::string line = bursts(report); !line.empty()) text += paragraph(line, style);
  for (const RankedResult& ranked : rank(report.results))
    if (ranked.result->waited > 0) text += paragraph(waits(ranked), style);
  for (const RankedResult& ranked : rank(report.results))
    if (!ranked.result->failures.empty()) text += paragraph(failures(ranked), style);
  if (report.info.skipped_rows > 0)
    text += fmt::format("skipped: {} invalid {} of the trace\n", format_count(report.info.skipped_rows),
                        report.info.skipped_rows == 1 ? "row" : "rows");
  for (const std::string& note : report.info.notes) text += paragraph(printable(note), style);
  return text;
}

std::string answer(const Report& report, const TableStyle& style) {
  const Answer answer = answer_of(report);
  if (answer.text.empty()) return {};
  const bool segments = has_segments(report);
  Grid grid{{{segments ? "for the goals of all segments" : "for a goal of " + format_goal(answer.goal), true},
             {"", true},
             {"SLO\nattainment"},
             {"GPU\nhours"},
             {"USD"},
             {"", true}},
            grid_style(style, false)};
  for (const auto& [kind, choice] : answer.choices())
    grid.add({kind, cut_to_width(printable(choice->label), kNameWidthMax), format_share(choice->result->slo_attainment),
              format_quantity(choice->result->gpu_hours), format_quantity(choice->result->cost),
              choice->reaches ? "" : "misses the goal"});
  return "\n" + grid.text() + "\n" + paragraph(printable(answer.text), style);
}

}  // namespace

std::string render_table(const Report& report, const TableStyle& style) {
  std::string text = facts(report.info, has_segments(report), style);
  if (!report.results.empty()) text += "\n" + policies(report, style);
  if (has_costs(report)) text += "\n" + costs(report, style);
  if (has_segments(report)) text += "\n" + targets(report, style);
  if (has_tenants(report)) text += "\n" + tenants(report, style);
  if (!report.frontier.empty()) text += "\n" + frontier(report, style);
  if (const std::string lines = remarks(report, style); !lines.empty()) text += "\n" + lines;
  return text + "\n" + paragraph(printable(headline(report)), style) + answer(report, style);
}

}  // namespace penstock::report
