#include "planner/policies/policies.h"

#include "planner/hpa_algorithm.h"
#include "planner/poolwise_policy.h"
#include "planner/samples.h"

namespace penstock::planner {

namespace {

class HpaConcurrency final : public PoolwisePolicy<HpaController> {
 public:
  explicit HpaConcurrency(const PolicyContext& context)
      : PoolwisePolicy("hpa-concurrency", kHpaSyncPeriod),
        target_requests_(context.settings.get("utilisation", kHpaTargetUtilization) * context.capacity.concurrency) {}

 protected:
  PoolDecision decide_pool(core::Instant now, const signals::PoolObservation& pool, HpaController& hpa) override {
    const ReadySamples samples = ready_samples(pool, now);
    PodMetric metric;
    metric.known = static_cast<std::uint32_t>(samples.known.size());
    metric.missing = samples.missing + pool.starting;
    for (const signals::ReplicaObservation* replica : samples.known)
      metric.sum += static_cast<double>(replica->sample->running_requests) + replica->sample->queued_requests;

    const HpaProposal proposal = propose_from_pods(metric, target_requests_, pool.target_replicas);
    PoolDecision decision = hpa.decide(now, pool.target_replicas, bounds_above_zero(pool), proposal);
    if (metric.known > 0) decision.evidence.push_back({"requests_per_replica", metric.sum / metric.known, "requests"});
    decision.evidence.push_back({"target_per_replica", target_requests_, "requests"});
    decision.evidence.push_back({"reporting", static_cast<double>(metric.known), "replicas"});
    decision.evidence.push_back({"missing", static_cast<double>(metric.missing), "replicas"});
    return decision;
  }

 private:
  double target_requests_;
};

}  // namespace

std::unique_ptr<Policy> make_hpa_concurrency(const PolicyContext& context) {
  return std::make_unique<HpaConcurrency>(context);
}

}  // namespace penstock::planner
