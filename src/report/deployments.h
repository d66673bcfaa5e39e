// The results of a replay of several deployments, for a terminal and for programs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "report/run_info.h"
#include "report/table.h"

namespace penstock::report {

struct DeploymentReport {
  std::string name, model;
  int priority = 0;
  double weight = 1.0;
  Report report;  // Its results are those of DeploymentsReport::policies, in their order.
};

// A resource of the shared budget: "GPUs", "h100 GPUs", "USD per hour".
struct ResourcePeak {
  std::string name;
  double peak = 0.0;  // The most that all deployments together used at once.
  double available = 0.0;
};

// One policy for all deployments.
struct SharedPolicy {
  std::string policy;
  bool is_limited = false;      // By the shared budget.
  std::uint32_t peak_gpus = 0;  // The most that were starting, ready or draining at once.
  std::vector<ResourcePeak> resources;
};

struct DeploymentsReport {
  std::string command, version;
  std::vector<DeploymentReport> deployments;  // At least one.
  std::vector<SharedPolicy> policies;
  std::vector<std::string> notes;
};

// Sums over the deployments.
struct SharedTotals {
  std::uint64_t requests = 0, failed = 0;
  double slo_attainment = 1.0;  // Share of the requests of all, each judged by the SLO of its deployment.
  double goodput_rps = 0.0, gpu_hours = 0.0, cost = 0.0;
};
[[nodiscard]] SharedTotals totals_of(const DeploymentsReport& report, std::size_t policy);

// The best policy by the sums, and the second beside it.
[[nodiscard]] std::string headline(const DeploymentsReport& report);

// One row for each policy and deployment and one for their sum, the policies best first; then the peaks of the budget.
// Ends with a newline.
[[nodiscard]] std::string render_table(const DeploymentsReport& report, const TableStyle& style);

// One JSON object: `policies` with the sums, best first, and `deployments`, each with `name`, `model`, `priority`,
// `weight` and what to_json() has for one replay. Equal runs give equal bytes.
[[nodiscard]] std::string to_json(const DeploymentsReport& report);

}  // namespace penstock::report
