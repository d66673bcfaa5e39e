#include "planner/global/shared_budget.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <string>

#include "core/result.h"

namespace penstock::planner::global {
namespace {

class BudgetedPolicy final : public decision::Policy {
 public:
  BudgetedPolicy(SharedBudget& budget, std::size_t deployment, std::unique_ptr<decision::Policy> policy)
      : budget_(budget), deployment_(deployment), policy_(std::move(policy)) {}

  [[nodiscard]] std::string_view name() const override { return policy_->name(); }
  [[nodiscard]] core::Duration interval() const override { return policy_->interval(); }
  [[nodiscard]] core::Duration memory() const override { return policy_->memory(); }
  [[nodiscard]] bool wants_segments() const override { return policy_->wants_segments(); }
  [[nodiscard]] decision::Decision decide(const signals::Observation& observation) override {
    decision::Decision decision = budget_.limit(deployment_, observation, policy_->decide(observation));
    std::vector<std::uint32_t> targets;
    for (const decision::PoolDecision& pool : decision.pools) targets.push_back(pool.target);
    policy_->revise(targets);
    return decision;
  }
  void revise(std::span<const std::uint32_t> targets) override { policy_->revise(targets); }
  void archive(core::StateArchive& state) override { policy_->archive(state); }

 private:
  SharedBudget& budget_;
  std::size_t deployment_;
  std::unique_ptr<decision::Policy> policy_;
};

}  // namespace

std::unique_ptr<decision::Policy> SharedBudget::limited(std::size_t deployment,
                                                        std::unique_ptr<decision::Policy> policy) {
  PENSTOCK_ASSERT(deployment < claims_.size(), "every deployment has a claim");
  return std::make_unique<BudgetedPolicy>(*this, deployment, std::move(policy));
}

void SharedBudget::read_counts(std::size_t deciding) {
  if (!counts_) return;
  for (std::size_t d = 0; d < claims_.size(); ++d) {
    if (d == deciding) continue;
    const std::vector<PoolCounts> counts = counts_(d);
    for (std::size_t p = 0; p < std::min(counts.size(), claims_[d].pools.size()); ++p) {
      PoolClaim& pool = claims_[d].pools[p];
      pool.target = counts[p].target;
      pool.running = counts[p].running;
      pool.draining = counts[p].draining;
    }
  }
}

decision::Decision SharedBudget::limit(std::size_t deployment, const signals::Observation& observation,
                                       decision::Decision decision) {
  DeploymentClaim& claim = claims_.at(deployment);
  PENSTOCK_ASSERT(decision.pools.size() == claim.pools.size() && observation.pools.size() == claim.pools.size(),
                  "a claim has the pools of its deployment");
  for (std::size_t p = 0; p < claim.pools.size(); ++p) {
    const signals::PoolObservation& seen = observation.pools[p];
    PoolClaim& pool = claim.pools[p];
    pool.gpus_per_replica = seen.gpus_per_replica;
    pool.price_per_gpu_hour = seen.price_per_gpu_hour;
    pool.min_replicas = seen.min_replicas;
    pool.max_replicas = seen.max_replicas;
    pool.target = seen.target_replicas;
    pool.running = seen.staying();
    pool.draining = seen.leaving();
    pool.proposed = decision.pools[p].target;
  }
  read_counts(deployment);
  division_ = divide(claims_, limits_, options_, shares_);
  shares_.clear();
  for (const std::vector<PoolGrant>& grants : division_.grants) {
    shares_.emplace_back();
    for (const PoolGrant& grant : grants) shares_.back().push_back(grant.share);
  }
  for (std::size_t p = 0; p < claim.pools.size(); ++p) {
    decision::PoolDecision& pool = decision.pools[p];
    const std::uint32_t granted = division_.grants[deployment][p].target;
    claim.pools[p].target = granted;
    const std::string text = explain(division_, claims_, deployment, p);
    if (text.empty()) continue;
    pool.evidence.push_back({"proposed_replicas", static_cast<double>(claim.pools[p].wanted()), "replicas"});
    if (!division_.resources.empty()) {
      const ResourceUse& use = division_.resources[division_.limiting[deployment][p].value_or(0)];
      pool.evidence.push_back({"budget_used", use.used, use.name});
      pool.evidence.push_back({"budget", use.available, use.name});
    }
    pool.target = granted;
    pool.limited_by = decision::Limit::kGpuBudget;
    decision.diagnosis +=
        fmt::format("{}{}: {}", decision.diagnosis.empty() ? "" : "; ", observation.pools[p].name, text);
  }
  return decision;
}

std::uint64_t SharedBudget::withheld_gpus(std::size_t deployment) const {
  std::uint64_t gpus = 0;
  for (const PoolClaim& pool : claims_.at(deployment).pools)
    if (pool.wanted() > pool.target) gpus += std::uint64_t{pool.wanted() - pool.target} * pool.gpus_per_replica;
  return gpus;
}

void SharedBudget::hold(std::size_t deployment) {
  for (PoolClaim& pool : claims_.at(deployment).pools) pool.proposed = pool.target;
}

}  // namespace penstock::planner::global
