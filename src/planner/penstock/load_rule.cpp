#include "planner/penstock/load_rule.h"

#include <algorithm>
#include <cmath>

#include "planner/samples.h"

namespace penstock::planner {

LoadRuleOptions throughput_rule() { return {}; }
LoadRuleOptions latency_rule() { return {0.4, 1024.0, 1.0, 0.1}; }

namespace {

// Sums over the ready replicas that report, and what waits in front of the pool.
struct PoolLoad {
  double kv = 0.0, queued_tokens = 0.0, queued_requests = 0.0;
  std::uint32_t reporting = 0, with_kv = 0;

  PoolLoad(const signals::PoolObservation& pool, std::optional<std::uint32_t> max_sequences) {
    const double mean_prompt = mean_prompt_tokens(pool);
    double capacity = 0.0, demand = 0.0;
    for (const signals::ReplicaObservation& replica : pool.replicas) {
      if (replica.state != signals::ReplicaState::kReady || !replica.sample) continue;
      const signals::EngineSample& sample = *replica.sample;
      queued_tokens += queued_prompt_tokens(sample, mean_prompt);
      queued_requests += sample.queued_requests;
      ++reporting;
      auto share = kv_demand(sample, mean_prompt);
      if (!share && sample.running_requests == 0 && sample.queued_requests == 0) share = 0.0;
      if (!share && max_sequences) share = static_cast<double>(sample.running_requests) / *max_sequences;
      if (!share) continue;
      kv += *share;
      ++with_kv;
      const auto tokens = static_cast<double>(sample.kv_capacity_tokens.value_or(0));
      capacity += tokens;
      demand += *share * tokens;
    }
    // A gateway keeps the queues of the engines short: what it holds back wants their KV cache as well.
    const double waiting_tokens = mean_prompt * pool.unrouted_requests;
    queued_requests += pool.unrouted_requests;
    queued_tokens += waiting_tokens;
    if (with_kv == 0) return;
    // Replicas count by their capacity where it is known.
    kv = capacity > 0.0 ? (demand + waiting_tokens) / capacity : kv / with_kv;
  }
};

}  // namespace

PoolDecision by_load(const signals::PoolObservation& pool, const LoadRuleOptions& options,
                     std::optional<std::uint32_t> max_sequences) {
  PoolDecision decision;
  decision.current = decision.target = pool.target_replicas;
  decision.reason = Reason::kNoData;
  const PoolLoad seen(pool, max_sequences);
  if (seen.reporting == 0) return decision;
  const double queued_tokens = seen.queued_tokens / seen.reporting, queued = seen.queued_requests / seen.reporting;
  const double by_queue = std::max(queued_tokens / options.queue_tokens_target, queued / options.queue_requests_target);
  double load = seen.with_kv > 0 ? std::max(seen.kv / options.kv_target, by_queue) : by_queue;
  const std::optional<double> bandwidth = mean_memory_bandwidth(pool);
  if (bandwidth && load >= 1.0 - options.tolerance) load = std::max(load, *bandwidth / options.bandwidth_target);
  const bool may_lower = seen.with_kv == seen.reporting;
  // Without queue and KV usage nothing is known of the load.
  if (seen.with_kv == 0 && by_queue == 0.0) return decision;
  if (seen.with_kv > 0) decision.evidence = {{"kv_use", seen.kv, "share"}, {"kv_target", options.kv_target, "share"}};
  if (seen.with_kv < seen.reporting)
    decision.evidence.push_back({"without_kv_usage", static_cast<double>(seen.reporting - seen.with_kv), "replicas"});
  decision.evidence.insert(decision.evidence.end(),
                           {{"queued_prefill_tokens", queued_tokens, "tokens"},
                            {"queue_target", options.queue_tokens_target, "tokens"},
                            {"queued_requests", queued, "requests"},
                            {"queued_requests_target", options.queue_requests_target, "requests"}});
  if (bandwidth)
    decision.evidence.insert(decision.evidence.end(), {{"memory_bandwidth", *bandwidth, "share"},
                                                       {"memory_bandwidth_target", options.bandwidth_target, "share"}});
  decision.reason = Reason::kWithinTolerance;
  if (std::abs(load - 1.0) <= options.tolerance || (load < 1.0 && !may_lower)) return decision;
  // Starting replicas are already requested; only the load of ready replicas counts, so that nothing is requested
  // twice.
  const double proposal = std::ceil(std::max(1.0, seen.reporting * std::min(load, 3.0)) - 1e-9);
  decision.target = static_cast<std::uint32_t>(proposal);
  if (load > 1.0 && decision.target < decision.current) decision.target = decision.current;
  decision.reason = load > 1.0 ? Reason::kLoadAboveTarget : Reason::kLoadBelowTarget;
  return decision;
}

}  // namespace penstock::planner
