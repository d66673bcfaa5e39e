#include "replay/budget_meter.h"

namespace penstock::replay {

UsePeaks::UsePeaks(std::vector<planner::global::DeploymentClaim> claims, planner::global::DivisionLimits limits)
    : claims_(std::move(claims)), limits_(std::move(limits)), by_deployment_(claims_.size()) {}

void UsePeaks::add(const std::vector<std::vector<planner::global::PoolCounts>>& replicas) {
  std::uint32_t sum = 0;
  for (std::size_t d = 0; d < claims_.size(); ++d) {
    std::uint32_t own = 0;
    for (std::size_t p = 0; p < claims_[d].pools.size(); ++p) {
      planner::global::PoolClaim& pool = claims_[d].pools[p];
      pool.running = replicas[d][p].running;
      pool.draining = replicas[d][p].draining;
      own += (pool.running + pool.draining) * pool.gpus_per_replica;
    }
    by_deployment_[d] = std::max(by_deployment_[d], own);
    sum += own;
  }
  gpus_ = std::max(gpus_, sum);
  const std::vector<planner::global::ResourceUse> uses = planner::global::running_use(claims_, limits_);
  resources_.resize(uses.size());
  for (std::size_t i = 0; i < uses.size(); ++i)
    resources_[i] = {uses[i].name, std::max(resources_[i].peak, uses[i].used), uses[i].available};
}

decision::Decision LimitMeter::decide(const signals::Observation& observation) {
  use_ = until(observation.now);
  since_ = std::max(observation.now, from_);
  decision::Decision decision = policy_->decide(observation);
  withheld_gpus_ = budget_.withheld_gpus(deployment_);
  const bool counts = withheld_gpus_ > 0 && observation.now >= from_;
  if (counts && !was_counted_) ++use_.limited_times;
  was_counted_ = counts;
  return decision;
}

decision::BudgetUse LimitMeter::until(core::Instant end) const {
  decision::BudgetUse use = use_;
  if (withheld_gpus_ == 0 || end <= since_) return use;
  use.limited_s += core::to_seconds(end - since_);
  use.withheld_gpu_hours += static_cast<double>(withheld_gpus_) * core::to_hours(end - since_);
  return use;
}

}  // namespace penstock::replay
