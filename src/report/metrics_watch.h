// Keeps what a policy last saw and decided, for the metrics of the end of a run.
#pragma once

#include <optional>
#include <vector>

#include "planner/policy.h"
#include "report/metrics.h"
#include "report/metrics_sources.h"
#include "signals/run_result.h"

namespace penstock::report {

// Passes everything on to a policy and back. `policy` must outlive it.
class MeteredPolicy final : public planner::Policy {
 public:
  // Prices as PlannerTotals takes them.
  explicit MeteredPolicy(planner::Policy& policy, std::vector<double> prices_per_gpu_hour = {})
      : policy_(policy), totals_(std::move(prices_per_gpu_hour)) {}

  [[nodiscard]] std::string_view name() const override { return policy_.name(); }
  [[nodiscard]] core::Duration interval() const override { return policy_.interval(); }
  [[nodiscard]] core::Duration memory() const override { return policy_.memory(); }
  [[nodiscard]] bool wants_segments() const override { return policy_.wants_segments(); }
  [[nodiscard]] planner::Decision decide(const signals::Observation& observation) override;

  // What a scrape after the last decision would have shown, with the attainment of the whole run. A policy that never
  // decided has the figures of the run only.
  [[nodiscard]] PlannerMetrics at_end(const signals::RunResult& result, const signals::SloTarget& slo) const;

 private:
  planner::Policy& policy_;
  PlannerTotals totals_;
  std::optional<signals::Observation> seen_;  // without the requests, which do not outlive the decision
  planner::Decision decided_;
};

}  // namespace penstock::report
