#include "report/metrics_watch.h"

namespace penstock::report {

decision::Decision MeteredPolicy::decide(const signals::Observation& observation) {
  decided_ = policy_.decide(observation);
  totals_.count(observation, decided_);
  seen_ = observation;
  seen_->recent = {};
  return decided_;
}

PlannerMetrics MeteredPolicy::at_end(const decision::RunResult& result, const signals::SloTarget& slo) const {
  PlannerMetrics metrics;
  if (seen_) {
    metrics = make_planner_metrics({.observation = *seen_, .decision = decided_, .totals = totals_, .slo = slo});
  } else {
    metrics.sla_target = {core::to_milliseconds(slo.ttft), core::to_milliseconds(slo.itl)};
    metrics.gpu_hours = result.gpu_hours;
    metrics.load_scaling = LoadScaling::kDisabled;
    metrics.throughput_scaling = ThroughputScaling::kDisabled;
  }
  metrics.policy = policy_.name();
  if (result.completed > 0) metrics.observed_request_duration_s = result.e2e_ms.mean / 1000.0;
  if (result.requests > 0) {
    metrics.slo_attainment = result.slo_attainment;
    metrics.ttft_attainment = result.ttft_attainment;
    metrics.itl_attainment = result.itl_attainment;
  }
  return metrics;
}

}  // namespace penstock::report
