#include "planner/penstock/load_rule.h"

#include <algorithm>
#include <cmath>

namespace penstock::planner {

LoadRuleOptions throughput_rule() { return {}; }
LoadRuleOptions latency_rule() { return {0.4, 1024.0, 0.1}; }

PoolDecision by_load(const signals::PoolObservation& pool, const LoadRuleOptions& options) {
  PoolDecision decision;
  decision.current = decision.target = pool.target_replicas;
  decision.reason = Reason::kNoData;
  double kv = 0.0, capacity = 0.0, queued = 0.0;
  std::uint32_t reporting = 0;
  for (const signals::ReplicaObservation& replica : pool.replicas) {
    if (replica.state != signals::ReplicaState::kReady || !replica.sample) continue;
    const signals::EngineSample& sample = *replica.sample;
    kv += static_cast<double>(sample.kv_used_tokens + sample.queued_kv_tokens + sample.queued_prefill_tokens);
    capacity += static_cast<double>(sample.kv_capacity_tokens);
    queued += static_cast<double>(sample.queued_prefill_tokens);
    ++reporting;
  }
  if (reporting == 0 || capacity <= 0.0) return decision;
  const double kv_use = kv / capacity, queue = queued / reporting;
  const double load = std::max(kv_use / options.kv_target, queue / options.queue_tokens_target);
  decision.evidence = {{"kv_use", kv_use, "share"},
                       {"kv_target", options.kv_target, "share"},
                       {"queued_prefill_tokens", queue, "tokens"},
                       {"queue_target", options.queue_tokens_target, "tokens"}};
  decision.reason = Reason::kWithinTolerance;
  if (std::abs(load - 1.0) <= options.tolerance) return decision;
  // Starting replicas are already requested; only the load of ready replicas counts, so that nothing is requested
  // twice.
  const double proposal = std::ceil(std::max(1.0, reporting * std::min(load, 3.0)) - 1e-9);
  decision.target = static_cast<std::uint32_t>(proposal);
  if (load > 1.0 && decision.target < decision.current) decision.target = decision.current;
  decision.reason = load > 1.0 ? Reason::kLoadAboveTarget : Reason::kLoadBelowTarget;
  return decision;
}

}  // namespace penstock::planner
