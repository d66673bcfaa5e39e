#include "report/csv.h"

#include <fmt/format.h>

#include <cmath>
#include <concepts>
#include <optional>

#include "report/ranking.h"
#include "report/token_cost.h"

namespace penstock::report {

using decision::RunResult;

namespace {

// Collects one row. The same calls make the header, so that both have the same columns.
class Row {
 public:
  explicit Row(bool header) : header_(header) {}

  void add(std::string_view name, std::string_view value) { cell(header_ ? name : value); }
  void add(std::string_view name, std::integral auto value) {
    cell(header_ ? std::string(name) : fmt::format("{}", value));
  }
  void add(std::string_view name, double value) {
    cell(header_ ? std::string(name) : std::isfinite(value) ? fmt::format("{}", value) : std::string());
  }
  // A maximum of zero means that no latency was measured.
  void add_summary(std::string_view name, const core::Summary& summary) {
    const auto figure = [&](const char* which, double value) {
      add(fmt::format("{}_{}_ms", name, which), summary.max > 0.0 ? value : NAN);
    };
    figure("mean", summary.mean);
    figure("p50", summary.p50);
    figure("p90", summary.p90);
    figure("p95", summary.p95);
    figure("p99", summary.p99);
    figure("max", summary.max);
  }
  [[nodiscard]] std::string line() && { return std::move(text_) + "\r\n"; }

 private:
  void cell(std::string_view value) {
    if (!text_.empty()) text_ += ',';
    text_ += csv_cell(value);
  }

  bool header_;
  std::string text_;
};

// `deployment`: in the first column; without it there is no such column.
std::string row_of(const RunResult& result, std::string_view set, bool header,
                   std::optional<std::string_view> deployment = {}) {
  Row row{header};
  if (deployment) row.add("deployment", *deployment);
  row.add("set", set);
  row.add("policy", result.policy);
  row.add("router", result.router);
  row.add("replicas", result.replicas);
  row.add("peak_replicas", result.peak_replicas);
  row.add("mean_replicas", result.mean_replicas);
  row.add("requests", result.requests);
  row.add("completed", result.completed);
  row.add("failed", result.failed);
  row.add("slo_attainment", result.slo_attainment);
  row.add("ttft_attainment", result.ttft_attainment);
  row.add("itl_attainment", result.itl_attainment);
  row.add("burst_requests", result.bursts.requests);
  row.add("burst_attainment", result.bursts.attainment().value_or(NAN));
  row.add("goodput_rps", result.goodput_rps);
  row.add("duration_s", result.duration_s);
  row.add("gpu_hours", result.gpu_hours);
  row.add("cost", result.cost);
  row.add_summary("ttft", result.ttft_ms);
  row.add_summary("itl", result.itl_ms);
  row.add_summary("tpot", result.tpot_ms);
  row.add_summary("e2e", result.e2e_ms);
  row.add("prefix_hit_ratio", result.prefix_hit_ratio);
  row.add("preemptions", result.preemptions);
  row.add("scaling_actions", result.scaling_actions);
  row.add("direction_changes", result.direction_changes);
  row.add("simulated_requests_per_s", result.simulated_requests_per_s);
  row.add("waited", result.waited);
  row.add_summary("queue_wait", result.queue_wait_ms);
  row.add("retried", result.retried);
  const TokenCosts costs = token_costs(result);
  row.add("gpu_usd_per_1m_input_tokens", costs.input.value_or(NAN));
  row.add("gpu_usd_per_1m_output_tokens", costs.output.value_or(NAN));
  row.add("gpu_usd_per_1m_input_tokens_at_slo", costs.input_at_slo.value_or(NAN));
  row.add("gpu_usd_per_1m_output_tokens_at_slo", costs.output_at_slo.value_or(NAN));
  row.add("mean_asleep", result.mean_asleep);
  row.add("role_switches", result.role_switches);
  return std::move(row).line();
}

}  // namespace

std::string csv_cell(std::string_view value) {
  if (value.find_first_of(",\"\r\n") == std::string_view::npos) return std::string{value};
  std::string text = "\"";
  for (const char c : value) {
    if (c == '"') text += '"';
    text += c;
  }
  return text + "\"";
}

std::string to_csv(const Report& report) {
  std::string text = row_of(RunResult{}, "", true);
  for (const RankedResult& ranked : rank(report.results)) text += row_of(*ranked.result, "policy", false);
  for (const RankedResult& ranked : rank(report.frontier)) text += row_of(*ranked.result, "frontier", false);
  return text;
}

std::string to_csv(const DeploymentsReport& report) {
  std::string text = row_of(RunResult{}, "", true, "");
  for (const DeploymentReport& deployment : report.deployments)
    for (const RankedResult& ranked : rank(deployment.report.results))
      text += row_of(*ranked.result, "policy", false, deployment.name);
  return text;
}

}  // namespace penstock::report
