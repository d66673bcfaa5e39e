// Evidence of what the engines of a pool are, and of what one replica can do.
#pragma once

#include <algorithm>
#include <cmath>

#include "planner/penstock/replica_speed.h"
#include "planner/policy.h"

namespace penstock::planner {

// Adds the learned speed, the estimates of latency and capacity that follow from it, and limits of the engines. Adds
// the replicas that slow ones lack to the target of a plan.
inline void add_speed_evidence(const ReplicaSpeed& speed, const signals::PoolObservation& pool,
                               const signals::SloTarget& slo, PoolDecision& proposal) {
  std::vector<Evidence>& evidence = proposal.evidence;
  const double lacking = speed.replicas_lacking(pool);
  if (proposal.reason != Reason::kInsufficientData) proposal.target += static_cast<std::uint32_t>(std::lround(lacking));
  evidence.push_back({"step_time_factor", speed.factor(), "times"});
  if (!speed.is_uncalibrated()) {
    const LatencyEstimate latency = speed.latency(pool);
    if (latency.ttft_ms) evidence.push_back({"estimated_ttft", *latency.ttft_ms, "ms"});
    if (latency.itl_ms) evidence.push_back({"estimated_itl", *latency.itl_ms, "ms"});
    if (const auto capacity = speed.estimate(pool, slo))
      evidence.push_back({"replica_capacity", capacity->requests_per_s, "1/s"});
    if (const auto share = speed.input_time_share(pool)) evidence.push_back({"input_time_share", *share, "share"});
  }
  if (const auto error = speed.correction().error()) evidence.push_back({"step_time_error", *error, "share"});
  if (speed.outside_profile() > 0.0) evidence.push_back({"outside_profile", speed.outside_profile(), "share"});
  if (lacking > 0.0) evidence.push_back({"lost_to_slow_replicas", lacking, "replicas"});
  if (speed.is_uncalibrated()) evidence.push_back({"uncalibrated_default_engine", 1.0, "model"});
  if (const auto sequences = speed.learned_sequences())
    evidence.push_back({"learned_max_sequences", static_cast<double>(*sequences), "requests"});
  if (const auto& tokens = speed.engine().kv_tokens)
    evidence.push_back({"reported_kv_capacity", static_cast<double>(*tokens), "tokens"});
  const auto unknown = std::count_if(pool.replicas.begin(), pool.replicas.end(), [](const auto& replica) {
    return replica.state == signals::ReplicaState::kReady && replica.sample && !replica.sample->kv_usage();
  });
  if (unknown > 0) evidence.push_back({"without_kv_usage", static_cast<double>(unknown), "replicas"});
}

}  // namespace penstock::planner
