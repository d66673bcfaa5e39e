#include "report/deployments.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "report/document.h"
#include "report/format.h"
#include "report/grid.h"
#include "report/ranking.h"

namespace penstock::report {

using decision::RunResult;

namespace {

// Positions of the policies: highest SLO attainment of all requests first, then fewest GPU-hours.
std::vector<std::size_t> best_first(const DeploymentsReport& report) {
  std::vector<Standing> standings;
  for (std::size_t i = 0; i < report.policies.size(); ++i) {
    const SharedTotals totals = totals_of(report, i);
    standings.push_back({totals.slo_attainment, totals.gpu_hours});
  }
  std::vector<std::size_t> order(standings.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return better(standings[a], standings[b]); });
  return order;
}

void add_rows(const DeploymentsReport& report, std::size_t index, Grid& grid) {
  const SharedPolicy& policy = report.policies[index];
  for (const DeploymentReport& deployment : report.deployments) {
    const RunResult& result = deployment.report.results[index];
    const decision::BudgetUse use = result.budget_use.value_or(decision::BudgetUse{});
    grid.add({policy.policy, deployment.name, fleet_text(result), format_share(result.slo_attainment),
              latency_text(result.ttft_ms, result.ttft_ms.p95), latency_text(result.itl_ms, result.itl_ms.p95),
              format_quantity(result.goodput_rps), format_quantity(result.gpu_hours), format_quantity(result.cost),
              format_count(result.failed), format_count(use.peak_gpus),
              policy.is_limited ? format_seconds(use.limited_s) : "–",
              policy.is_limited ? format_count(use.limited_times) : "–"});
  }
  const SharedTotals sum = totals_of(report, index);
  grid.add({policy.policy, "all", "", format_share(sum.slo_attainment), "", "", format_quantity(sum.goodput_rps),
            format_quantity(sum.gpu_hours), format_quantity(sum.cost), format_count(sum.failed),
            format_count(policy.peak_gpus), "", ""});
}

std::string amount_of(double value) {
  const auto whole = static_cast<std::uint64_t>(value);
  return static_cast<double>(whole) == value ? format_count(whole) : format_quantity(value);
}

std::string peaks(const DeploymentsReport& report, const std::vector<std::size_t>& order, const GridStyle& style) {
  Grid grid{{{"policy", true}, {"resource", true}, {"peak"}, {"budget"}, {"", true}}, style};
  bool any = false;
  for (const std::size_t index : order)
    for (const ResourcePeak& resource : report.policies[index].resources) {
      any = true;
      grid.add({report.policies[index].policy, resource.name, amount_of(resource.peak), amount_of(resource.available),
                resource.peak > resource.available + 1e-9 ? "exceeds the budget" : ""});
    }
  return any ? "\n" + grid.text() : std::string{};
}

nlohmann::ordered_json totals_json(const DeploymentsReport& report, std::size_t index) {
  const SharedPolicy& policy = report.policies[index];
  const SharedTotals sum = totals_of(report, index);
  nlohmann::ordered_json json = {{"policy", policy.policy},
                                 {"limited_by_budget", policy.is_limited},
                                 {"requests", sum.requests},
                                 {"failed", sum.failed},
                                 {"slo_attainment", json_number(sum.slo_attainment)},
                                 {"goodput_rps", json_number(sum.goodput_rps)},
                                 {"gpu_hours", json_number(sum.gpu_hours)},
                                 {"cost", json_number(sum.cost)},
                                 {"peak_gpus", policy.peak_gpus},
                                 {"resources", nlohmann::ordered_json::array()}};
  for (const ResourcePeak& resource : policy.resources)
    json["resources"].push_back({{"name", resource.name},
                                 {"peak", json_number(resource.peak)},
                                 {"available", json_number(resource.available)}});
  return json;
}

}  // namespace

SharedTotals totals_of(const DeploymentsReport& report, std::size_t policy) {
  SharedTotals sum;
  std::uint64_t judged = 0, met = 0;
  for (const DeploymentReport& deployment : report.deployments) {
    const RunResult& result = deployment.report.results[policy];
    sum.requests += result.requests;
    sum.failed += result.failed;
    sum.goodput_rps += result.goodput_rps;
    sum.gpu_hours += result.gpu_hours;
    sum.cost += result.cost;
    for (const decision::TargetResult& target : result.targets) {
      judged += target.requests;
      met += target.met;
    }
  }
  if (judged > 0) sum.slo_attainment = static_cast<double>(met) / static_cast<double>(judged);
  return sum;
}

std::string headline(const DeploymentsReport& report) {
  const std::vector<std::size_t> order = best_first(report);
  if (order.empty()) return "No policy was replayed.";
  const SharedTotals best = totals_of(report, order.front());
  std::string text =
      fmt::format("{} has an SLO attainment of {} over {} requests of {} deployments at {} GPU-hours",
                  report.policies[order.front()].policy, format_share(best.slo_attainment), format_count(best.requests),
                  report.deployments.size(), format_quantity(best.gpu_hours));
  if (order.size() == 1) return text + ".";
  const SharedTotals next = totals_of(report, order[1]);
  return text + fmt::format("; {} has {} at {}.", report.policies[order[1]].policy, format_share(next.slo_attainment),
                            format_quantity(next.gpu_hours));
}

std::string render_table(const DeploymentsReport& report, const TableStyle& style) {
  std::string text;
  for (const DeploymentReport& deployment : report.deployments) {
    const RunInfo& info = deployment.report.info;
    text += paragraph(fmt::format("{} (priority {}): {}; goal {}", deployment.name, deployment.priority,
                                  replayed_text(info, has_segments(deployment.report)), format_goal(info.slo_goal)),
                      style);
  }
  const GridStyle grid_style{style.colour, false, std::min(style.width, kTableWidth)};
  Grid grid{{{"policy", true},
             {"deployment", true},
             {"replicas", true, 4},
             {"SLO at-\ntainment"},
             {"TTFT\np95"},
             {"ITL\np95", false, 3},
             {"good-\nput/s", false, 5},
             {"GPU\nhours"},
             {"USD", false, 6},
             {"failed", false, 2},
             {"peak\nGPUs"},
             {"limited by\nthe budget"},
             {"times", false, 1}},
            grid_style};
  const std::vector<std::size_t> order = best_first(report);
  for (const std::size_t index : order) add_rows(report, index, grid);
  text += "\n" + grid.text() + peaks(report, order, grid_style);
  if (!report.notes.empty()) text += "\n";
  for (const std::string& note : report.notes) text += paragraph(printable(note), style);
  return text;
}

nlohmann::ordered_json make_document(const DeploymentsReport& report, const DocumentOptions& options) {
  nlohmann::ordered_json json = {{"penstock", report.version},
                                 {"headline", headline(report)},
                                 {"command", report.command},
                                 {"notes", report.notes},
                                 {"policies", nlohmann::ordered_json::array()},
                                 {"deployments", nlohmann::ordered_json::array()}};
  for (const std::size_t index : best_first(report)) json["policies"].push_back(totals_json(report, index));
  for (const DeploymentReport& deployment : report.deployments) {
    nlohmann::ordered_json entry = {{"name", deployment.name},
                                    {"model", deployment.model},
                                    {"priority", deployment.priority},
                                    {"weight", json_number(deployment.weight)}};
    entry.update(make_document(deployment.report, options));
    json["deployments"].push_back(std::move(entry));
  }
  return json;
}

std::string to_json(const DeploymentsReport& report) {
  DocumentOptions options;
  options.wall_speed = false;
  return write_json(make_document(report, options), {}) + "\n";
}

}  // namespace penstock::report
