// One budget for the policies of several deployments: each decides for itself, and the division limits what they may
// request.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "decision/policy.h"
#include "planner/global/budget_division.h"

namespace penstock::planner::global {

// Replicas of one pool now.
struct PoolCounts {
  std::uint32_t target = 0;
  std::uint32_t running = 0;   // Starting, ready, or stuck in their start.
  std::uint32_t draining = 0;  // Also those that do not end.

  bool operator==(const PoolCounts&) const = default;
};

// Keeps what each deployment proposed last. Every decision of one of them divides the budget anew among all; it changes
// the targets of that deployment only, and those of the others change with their next decisions. Until GPUs have become
// free, nothing grows into them, so that the order of the decisions does not matter. Not thread-safe.
class SharedBudget {
 public:
  // Reads the replicas of a deployment by pool. Without it, counts are those of the last decision.
  using Counts = std::function<std::vector<PoolCounts>(std::size_t deployment)>;

  // Until a deployment has decided, its claim here counts.
  SharedBudget(DivisionLimits limits, Options options, std::vector<DeploymentClaim> claims)
      : limits_(std::move(limits)), options_(std::move(options)), claims_(std::move(claims)) {}

  void set_counts(Counts counts) { counts_ = std::move(counts); }

  // The policy of a deployment with its decisions limited to the budget, which must outlive it.
  [[nodiscard]] std::unique_ptr<decision::Policy> limited(std::size_t deployment,
                                                          std::unique_ptr<decision::Policy> policy);

  // Limits a decision on the pools of the deployment. A limited pool has Limit::kGpuBudget, figures as evidence, and a
  // sentence in the diagnosis that names who has the GPUs.
  [[nodiscard]] decision::Decision limit(std::size_t deployment, const signals::Observation& observation,
                                         decision::Decision decision);

  // The deployment cannot decide: it keeps what it has, and proposes nothing more.
  void hold(std::size_t deployment);

  // GPUs that the policy of the deployment proposed with its last decision, and did not get.
  [[nodiscard]] std::uint64_t withheld_gpus(std::size_t deployment) const;

  // Of the last decision; no grants before the first one.
  [[nodiscard]] const Division& division() const { return division_; }
  [[nodiscard]] const std::vector<DeploymentClaim>& claims() const { return claims_; }

 private:
  void read_counts(std::size_t deciding);

  DivisionLimits limits_;
  Options options_;
  std::vector<DeploymentClaim> claims_;
  Counts counts_;
  Division division_;
  Shares shares_;  // Of the last division.
};

}  // namespace penstock::planner::global
