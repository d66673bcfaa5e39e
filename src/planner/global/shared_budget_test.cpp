// Policies of two deployments that decide one after the other under one budget.
#include "planner/global/shared_budget.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "planner/penstock/fleet_guardrails.h"

namespace penstock::planner::global {
namespace {

using decision::Limit;

// Proposes what a test sets, and keeps what it is told.
class Proposing final : public decision::Policy {
 public:
  explicit Proposing(const std::uint32_t& proposed) : proposed_(proposed) {}
  [[nodiscard]] std::string_view name() const override { return "proposing"; }
  [[nodiscard]] core::Duration interval() const override { return std::chrono::seconds{15}; }
  [[nodiscard]] decision::Decision decide(const signals::Observation& observation) override {
    decision::Decision decision;
    for (const signals::PoolObservation& pool : observation.pools)
      decision.pools.push_back({pool.target_replicas, proposed_, decision::Reason::kSloMet});
    return decision;
  }
  void revise(std::span<const std::uint32_t> targets) override { revised.assign(targets.begin(), targets.end()); }

  std::vector<std::uint32_t> revised;

 private:
  const std::uint32_t& proposed_;
};

DeploymentClaim deployment(const std::string& name, int priority, std::uint32_t replicas) {
  PoolClaim pool;
  pool.name = name;
  pool.max_replicas = 20;
  pool.target = pool.proposed = replicas;
  return {name, priority, 1.0, {pool}};
}

class SharedBudgetTest : public ::testing::Test {
 protected:
  SharedBudgetTest() : budget_(limits(8), fair(), {deployment("chat", 1, 2), deployment("mail", 0, 4)}) {
    for (std::size_t i = 0; i < 2; ++i) {
      auto policy = std::make_unique<Proposing>(proposed_[i]);
      policies_[i] = policy.get();
      limited_.push_back(budget_.limited(i, std::move(policy)));
    }
  }
  static DivisionLimits limits(std::uint64_t gpus) { return {{gpus, std::nullopt}, {}}; }
  static Options fair() {
    Options options;
    options.objective = Objective::kMaxMin;
    return options;
  }

  // One decision of a deployment; the fleet then has its target.
  decision::PoolDecision decide(std::size_t index, std::uint32_t proposed) {
    proposed_[index] = proposed;
    signals::Observation seen;
    signals::PoolObservation& pool = seen.pools.emplace_back();
    pool.name = index == 0 ? "chat" : "mail";
    pool.max_replicas = 20;
    pool.target_replicas = target_[index];
    pool.ready = target_[index];
    pool.draining = draining_[index];
    pool.stuck_ending = not_ending_[index];
    decision_ = limited_[index]->decide(seen);
    const std::uint32_t now = decision_.pools[0].target;
    if (now < target_[index]) draining_[index] += target_[index] - now;
    target_[index] = now;
    return decision_.pools[0];
  }

  SharedBudget budget_;
  std::uint32_t proposed_[2] = {}, target_[2] = {2, 4}, draining_[2] = {}, not_ending_[2] = {};
  Proposing* policies_[2] = {};
  std::vector<std::unique_ptr<decision::Policy>> limited_;
  decision::Decision decision_;
};

TEST_F(SharedBudgetTest, MovesGpusToTheHigherClassOnceTheyHaveDrained) {
  EXPECT_EQ(decide(0, 7).target, 4U) << "two GPUs are free";
  EXPECT_EQ(decide(1, 4).target, 1U);
  EXPECT_EQ(decide(0, 7).target, 4U) << "mail still drains";
  draining_[1] = 1;
  EXPECT_EQ(decide(1, 4).target, 1U);
  EXPECT_EQ(decide(0, 7).target, 6U);
  draining_[1] = 0;
  EXPECT_EQ(decide(1, 4).target, 1U) << "a free GPU is for the higher class, in any order of decisions";
  EXPECT_EQ(decide(0, 7).target, 7U);
  EXPECT_EQ(decide(1, 4).target, 1U);
}

TEST_F(SharedBudgetTest, GivesNoGpusOfReplicasThatDoNotEnd) {
  not_ending_[1] = 1;
  EXPECT_EQ(decide(1, 4).target, 4U);
  EXPECT_EQ(decide(0, 7).target, 3U) << "of the two that would be free, one is held";
  not_ending_[1] = 0;
  EXPECT_EQ(decide(1, 4).target, 1U);
  EXPECT_EQ(decide(0, 7).target, 4U);
}

TEST_F(SharedBudgetTest, NamesWhoHasTheGpus) {
  decide(0, 7);
  const decision::PoolDecision mail = decide(1, 6);
  EXPECT_EQ(mail.limited_by, Limit::kGpuBudget);
  EXPECT_EQ(decision_.diagnosis,
            "mail: limited by gpu_budget: 1 of 6 replicas; 8 of 8 GPUs used: chat 4 (priority 1), mail 4 (3 draining)");
  ASSERT_EQ(mail.evidence.size(), 3U);
  EXPECT_EQ(mail.evidence[0].name, "proposed_replicas");
  EXPECT_EQ(mail.evidence[0].value, 6.0);
  EXPECT_EQ(mail.evidence[1].name, "budget_used");
  EXPECT_EQ(mail.evidence[2].value, 8.0);
}

TEST_F(SharedBudgetTest, LeavesADecisionAsItIsWhereAllFit) {
  const decision::PoolDecision chat = decide(0, 3);
  EXPECT_EQ(chat.target, 3U);
  EXPECT_EQ(chat.limited_by, Limit::kNone);
  EXPECT_TRUE(chat.evidence.empty());
  EXPECT_EQ(decision_.diagnosis, "");
}

TEST_F(SharedBudgetTest, TellsThePolicyWhichTargetIsInForce) {
  decide(0, 7);
  EXPECT_EQ(policies_[0]->revised, std::vector<std::uint32_t>{4});
}

TEST_F(SharedBudgetTest, CountsADeploymentThatHasNotDecidedYet) {
  EXPECT_EQ(decide(1, 8).target, 6U) << "two are reserved for chat, which starts with two";
}

TEST_F(SharedBudgetTest, GivesTheProposalOfADeploymentThatCannotDecideToOthers) {
  decide(0, 7);
  EXPECT_EQ(decide(1, 4).target, 1U);
  budget_.hold(0);
  draining_[1] = 0;
  EXPECT_EQ(decide(1, 4).target, 4U) << "chat keeps its four, and asks for no more";
}

TEST_F(SharedBudgetTest, ReadsTheReplicasOfOthersAsTheyAreNow) {
  decide(0, 2);
  PoolCounts chat{2, 2, 4};
  budget_.set_counts([&](std::size_t index) {
    EXPECT_EQ(index, 0U);
    return std::vector{chat};
  });
  EXPECT_EQ(decide(1, 6).target, 4U) << "four of chat's replicas drain";
  chat.draining = 0;
  EXPECT_EQ(decide(1, 6).target, 6U);
}

// A target that the policy did not choose looks like a manual change to its guardrails, after which they hold.
TEST(SharedBudgetGuardrails, DoNotTakeALimitedTargetForAManualChange) {
  const auto second_target = [](bool revises) {
    FleetGuardrails guardrails;
    signals::Observation seen;
    signals::PoolObservation& pool = seen.pools.emplace_back();
    pool.max_replicas = 20;
    pool.target_replicas = pool.ready = 2;
    const auto propose = [&](std::uint32_t replicas) {
      return guardrails.apply(seen, {PoolDecision{pool.target_replicas, replicas, Reason::kSloMet}})[0];
    };
    EXPECT_EQ(propose(5).target, 5U);
    if (revises) guardrails.revise(std::vector<std::uint32_t>{3});
    seen.now += std::chrono::seconds{15};
    pool.target_replicas = pool.ready = 3;
    return propose(5).target;
  };
  EXPECT_EQ(second_target(true), 5U);
  EXPECT_EQ(second_target(false), 3U);
}

TEST_F(SharedBudgetTest, WithheldGpusAreThoseOfTheLastDecision) {
  EXPECT_EQ(budget_.withheld_gpus(0), 0U);
  EXPECT_EQ(decide(0, 5).target, 4U);  // Two are free beside the four of mail.
  EXPECT_EQ(budget_.withheld_gpus(0), 1U);
  EXPECT_EQ(budget_.withheld_gpus(1), 0U);
  decide(1, 9);
  EXPECT_EQ(budget_.withheld_gpus(1), 9U - target_[1]);
  decide(0, 1);
  EXPECT_EQ(budget_.withheld_gpus(0), 0U);
}

}  // namespace
}  // namespace penstock::planner::global
