// Keeps what a policy last saw and decided, for the metrics of the end of a run.
#pragma once

#include <optional>
#include <vector>

#include "decision/policy.h"
#include "decision/run_result.h"
#include "report/metrics.h"
#include "report/metrics_sources.h"

namespace penstock::report {

// Passes everything on to a policy and back. `policy` must outlive it.
class MeteredPolicy final : public decision::Policy {
 public:
  // Prices as DecisionTotals takes them.
  explicit MeteredPolicy(decision::Policy& policy, std::vector<double> prices_per_gpu_hour = {})
      : policy_(policy), totals_(std::move(prices_per_gpu_hour)) {}

  [[nodiscard]] std::string_view name() const override { return policy_.name(); }
  [[nodiscard]] core::Duration interval() const override { return policy_.interval(); }
  [[nodiscard]] core::Duration memory() const override { return policy_.memory(); }
  [[nodiscard]] bool wants_segments() const override { return policy_.wants_segments(); }
  [[nodiscard]] decision::Decision decide(const signals::Observation& observation) override;
  void archive(core::StateArchive& state) override { policy_.archive(state); }

  // What a scrape after the last decision would have shown, with the attainment of the whole run. A policy that never
  // decided has the figures of the run only.
  [[nodiscard]] PlannerMetrics at_end(const decision::RunResult& result, const signals::SloTarget& slo) const;

 private:
  decision::Policy& policy_;
  decision::DecisionTotals totals_;
  std::optional<signals::Observation> seen_;  // without the requests, which do not outlive the decision
  decision::Decision decided_;
};

}  // namespace penstock::report
