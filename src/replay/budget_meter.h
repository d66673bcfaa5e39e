// Measures what several deployments use of their budget, and when it limits them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "core/time.h"
#include "decision/policy.h"
#include "decision/run_result.h"
#include "planner/global/shared_budget.h"
#include "report/deployments.h"

namespace penstock::replay {

// The most that was in use at once, from counts of replicas over time.
class UsePeaks {
 public:
  UsePeaks(std::vector<planner::global::DeploymentClaim> claims, planner::global::DivisionLimits limits);

  // `replicas` by deployment and pool.
  void add(const std::vector<std::vector<planner::global::PoolCounts>>& replicas);

  [[nodiscard]] std::uint32_t gpus() const { return gpus_; }
  [[nodiscard]] std::uint32_t gpus_of(std::size_t deployment) const { return by_deployment_[deployment]; }
  [[nodiscard]] const std::vector<report::ResourcePeak>& resources() const { return resources_; }

 private:
  std::vector<planner::global::DeploymentClaim> claims_;
  planner::global::DivisionLimits limits_;
  std::uint32_t gpus_ = 0;
  std::vector<std::uint32_t> by_deployment_;
  std::vector<report::ResourcePeak> resources_;
};

// Forwards to the policy of a deployment that a budget limits, and measures for how long. Time before `from` does not
// count.
class LimitMeter final : public decision::Policy {
 public:
  LimitMeter(const planner::global::SharedBudget& budget, std::size_t deployment,
             std::unique_ptr<decision::Policy> limited, core::Instant from)
      : budget_(budget), deployment_(deployment), policy_(std::move(limited)), from_(from), since_(from) {}

  [[nodiscard]] std::string_view name() const override { return policy_->name(); }
  [[nodiscard]] core::Duration interval() const override { return policy_->interval(); }
  [[nodiscard]] core::Duration memory() const override { return policy_->memory(); }
  [[nodiscard]] bool wants_segments() const override { return policy_->wants_segments(); }
  [[nodiscard]] decision::Decision decide(const signals::Observation& observation) override;
  void revise(std::span<const std::uint32_t> targets) override { policy_->revise(targets); }
  void archive(core::StateArchive& state) override { policy_->archive(state); }

  // Without its peak.
  [[nodiscard]] decision::BudgetUse until(core::Instant end) const;

 private:
  const planner::global::SharedBudget& budget_;
  std::size_t deployment_;
  std::unique_ptr<decision::Policy> policy_;
  core::Instant from_, since_;
  std::uint64_t withheld_gpus_ = 0;  // By the last decision.
  bool was_counted_ = false;         // The time since the budget began to limit the deployment is counted.
  decision::BudgetUse use_;
};

}  // namespace penstock::replay
