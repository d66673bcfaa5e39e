#include "planner/policies/policies.h"

#include "core/state_archive.h"
#include "planner/bounds.h"
#include "planner/poolwise_policy.h"

namespace penstock::planner {

namespace {

struct Nothing {
  void archive(core::StateArchive&) {}
};

class StaticFleet final : public PoolwisePolicy<Nothing> {
 public:
  StaticFleet() : PoolwisePolicy("static", core::Duration::max()) {}

 protected:
  PoolDecision decide_pool(core::Instant, const signals::PoolObservation& pool, Nothing&) override {
    PoolDecision decision = hold(pool, Reason::kFixed);
    decision.evidence = {{"target", static_cast<double>(pool.target_replicas), "replicas"}};
    return decision;
  }
};

}  // namespace

std::unique_ptr<Policy> make_static_fleet(const PolicyContext&) { return std::make_unique<StaticFleet>(); }

}  // namespace penstock::planner
