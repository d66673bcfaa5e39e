#include "planner/policies/policies.h"

#include "planner/hpa_algorithm.h"
#include "planner/poolwise_policy.h"

namespace penstock::planner {

namespace {

class HpaRate final : public PoolwisePolicy<HpaController> {
 public:
  explicit HpaRate(const PolicyContext& context)
      : PoolwisePolicy("hpa-rate", kHpaSyncPeriod),
        target_per_s_(context.settings.get("utilisation", kHpaTargetUtilization) * context.capacity.requests_per_s) {}

 protected:
  PoolDecision decide_pool(core::Instant now, const signals::PoolObservation& pool, HpaController& hpa) override {
    const signals::TrafficWindow& traffic = pool.last_minute;
    HpaProposal proposal;
    double rate_per_s = 0.0;
    if (traffic.length > core::Duration::zero()) {
      rate_per_s = static_cast<double>(traffic.arrivals) / core::to_seconds(traffic.length);
      proposal = propose_from_total(rate_per_s, target_per_s_, provisioned(pool));
    }
    PoolDecision decision = hpa.decide(now, pool.target_replicas, bounds_above_zero(pool), proposal);
    if (decision.reason != Reason::kNoData) decision.evidence.push_back({"request_rate", rate_per_s, "1/s"});
    decision.evidence.push_back({"target_per_replica", target_per_s_, "1/s"});
    decision.evidence.push_back({"provisioned", static_cast<double>(provisioned(pool)), "replicas"});
    return decision;
  }

 private:
  double target_per_s_;
};

}  // namespace

std::unique_ptr<Policy> make_hpa_rate(const PolicyContext& context) { return std::make_unique<HpaRate>(context); }

}  // namespace penstock::planner
