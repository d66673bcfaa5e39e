#include "planner/policies/policies.h"

#include "planner/hpa_algorithm.h"
#include "planner/poolwise_policy.h"

namespace penstock::planner {

namespace {

class HpaRate final : public PoolwisePolicy<HpaController> {
 public:
  explicit HpaRate(const PolicyContext& context)
      : PoolwisePolicy("hpa-rate", kHpaSyncPeriod), capacity_(context.capacity) {}

 protected:
  PoolDecision decide_pool(core::Instant now, const signals::PoolObservation& pool, HpaController& hpa) override {
    const double target_per_s = kHpaTargetUtilization * capacity_.requests_per_s;
    const signals::TrafficWindow& traffic = pool.last_minute;
    HpaProposal proposal;
    double rate_per_s = 0.0;
    if (traffic.length > core::Duration::zero()) {
      rate_per_s = static_cast<double>(traffic.arrivals) / core::to_seconds(traffic.length);
      proposal = propose_from_total(rate_per_s, target_per_s, provisioned(pool));
    }
    PoolDecision decision = hpa.decide(now, pool.target_replicas, bounds_of(pool), proposal);
    if (decision.reason != Reason::kNoData) decision.evidence.push_back({"request_rate", rate_per_s, "1/s"});
    decision.evidence.push_back({"target_per_replica", target_per_s, "1/s"});
    decision.evidence.push_back({"provisioned", static_cast<double>(provisioned(pool)), "replicas"});
    return decision;
  }

 private:
  ReplicaCapacity capacity_;
};

}  // namespace

std::unique_ptr<Policy> make_hpa_rate(const PolicyContext& context) { return std::make_unique<HpaRate>(context); }

}  // namespace penstock::planner
