// Several deployments under one clock, with policies that share a budget of GPUs.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "planner/global/shared_budget.h"
#include "simulation/world_testing.h"

namespace penstock::simulation {
namespace {

using planner::global::DeploymentClaim;
using planner::global::SharedBudget;
using testing::at_s;
using testing::options;
using testing::pool;
using testing::random_workload;
using testing::run_ok;
using testing::Scripted;
using testing::steps;

DeploymentClaim claim(const std::string& name, int priority, const std::vector<PoolSpec>& specs) {
  return {name, priority, 1.0, pool_claims(specs)};
}

SharedBudget budget_of(std::uint64_t gpus, std::vector<DeploymentClaim> claims) {
  planner::global::Options fair;
  fair.objective = planner::global::Objective::kMaxMin;
  return {{{gpus, std::nullopt}, {}}, fair, std::move(claims)};
}

// Forwards to a policy, and records the GPUs in use, the target and the diagnosis at each decision.
class Observed final : public decision::Policy {
 public:
  struct Moment {
    core::Instant at;
    std::uint32_t target = 0, in_use = 0;
    std::string diagnosis;
  };
  explicit Observed(std::unique_ptr<decision::Policy> policy) : policy_(std::move(policy)) {}
  [[nodiscard]] std::string_view name() const override { return policy_->name(); }
  [[nodiscard]] core::Duration interval() const override { return policy_->interval(); }
  [[nodiscard]] decision::Decision decide(const signals::Observation& observation) override {
    decision::Decision decision = policy_->decide(observation);
    const signals::PoolObservation& seen = observation.pools[0];
    moments.push_back({observation.now, decision.pools[0].target,
                       std::max(decision.pools[0].target, seen.starting + seen.ready) + seen.draining,
                       decision.diagnosis});
    return decision;
  }

  std::vector<Moment> moments;

 private:
  std::unique_ptr<decision::Policy> policy_;
};

TEST(RunTogether, ARunAloneIsTheSameAsTogetherWithAnother) {
  const workload::Workload first = random_workload(300, 4.0, 1), second = random_workload(200, 2.0, 2);
  const RunOptions run_options = options(pool(2));
  Scripted alone = steps({{20.0, 3}, {40.0, 1}}), together = steps({{20.0, 3}, {40.0, 1}}), other = steps({{10.0, 1}});
  const decision::RunResult expected = run_ok(first, alone, run_options);
  const std::array runs{SharedRun{&first, &together, &run_options}, SharedRun{&second, &other, &run_options}};
  const auto results = run_together(runs);
  ASSERT_TRUE(results);
  ASSERT_EQ(results->size(), 2U);
  EXPECT_EQ((*results)[0].completed, 300U);
  EXPECT_EQ((*results)[0].ttft_ms.mean, expected.ttft_ms.mean);
  EXPECT_EQ((*results)[0].gpu_hours, expected.gpu_hours);
  EXPECT_EQ((*results)[0].duration_s, expected.duration_s);
  EXPECT_EQ((*results)[1].completed, 200U);
}

TEST(RunTogether, ErrorsAreThoseOfARunAlone) {
  const workload::Workload nothing;
  const RunOptions run_options = options(pool(1));
  Scripted still = steps({});
  const std::array runs{SharedRun{&nothing, &still, &run_options}};
  const auto results = run_together(runs);
  ASSERT_FALSE(results);
  EXPECT_EQ(results.error().message(), "workload: has no requests");
}

TEST(RunTogether, AHigherClassTakesGpusFromALowerOneWithoutAFailedRequest) {
  const workload::Workload chats = random_workload(1600, 4.0, 1), mails = random_workload(1600, 4.0, 2);
  const RunOptions of_chat = options(pool(1)), of_mail = options(pool(6));
  SharedBudget budget = budget_of(8, {claim("chat", 1, of_chat.pools), claim("mail", 0, of_mail.pools)});
  const auto proposing = [](std::vector<std::pair<double, std::uint32_t>> changes) {
    return std::make_unique<Scripted>([changes](const signals::Observation& seen, std::size_t) {
      std::uint32_t proposed = changes.front().second;
      for (const auto& [second, replicas] : changes)
        if (seen.now >= at_s(second)) proposed = replicas;
      return proposed;
    });
  };
  // Mail wants six replicas all the time. Chat wants five between 100 s and 200 s.
  Observed chat{budget.limited(0, proposing({{0.0, 1}, {100.0, 5}, {200.0, 1}}))};
  Observed mail{budget.limited(1, proposing({{0.0, 6}}))};
  const std::array runs{SharedRun{&chats, &chat, &of_chat}, SharedRun{&mails, &mail, &of_mail}};
  const auto results = run_together(runs);
  ASSERT_TRUE(results);
  for (const decision::RunResult& result : *results) {
    EXPECT_EQ(result.completed, 1600U);
    EXPECT_TRUE(result.failures.empty());
  }

  const auto target_at = [](const Observed& policy, double second) {
    const auto last = std::find_if(policy.moments.rbegin(), policy.moments.rend(),
                                   [&](const Observed::Moment& moment) { return moment.at <= at_s(second); });
    return last->target;
  };
  EXPECT_EQ(target_at(chat, 99.0), 1U);
  EXPECT_EQ(target_at(mail, 99.0), 6U);
  EXPECT_EQ(target_at(chat, 190.0), 5U);
  EXPECT_EQ(target_at(mail, 190.0), 3U);
  EXPECT_EQ(target_at(mail, 230.0), 6U) << "chat has released its GPUs";

  // Both decide once a second, chat before mail: no moment has more GPUs in use than there are.
  for (std::size_t i = 0; i < std::min(chat.moments.size(), mail.moments.size()); ++i)
    EXPECT_LE(chat.moments[i].in_use + mail.moments[i].in_use, 8U) << i;
  const auto limited = std::find_if(mail.moments.begin(), mail.moments.end(),
                                    [](const Observed::Moment& moment) { return moment.at >= at_s(190.0); });
  EXPECT_EQ(limited->diagnosis,
            "default: limited by gpu_budget: 3 of 6 replicas; 8 of 8 GPUs used: chat 5 (priority 1), mail 3");
}

TEST(RunTogether, ADeploymentDecidesWithoutRequestsUntilTheEndOfTheOther) {
  const workload::Workload early = random_workload(40, 4.0, 1);
  RunOptions run_options = options(pool(3));
  run_options.runs_until = at_s(100.0);
  Scripted shrinking = steps({{60.0, 1}});
  const decision::RunResult result = run_ok(early, shrinking, run_options);
  EXPECT_EQ(result.duration_s, 100.0);
  EXPECT_EQ(result.scaling_actions, 1U);
  EXPECT_DOUBLE_EQ(result.gpu_hours * 3600.0, 3 * 60.0 + 1 * 40.0);

  run_options.runs_until = core::kStart;
  Scripted same = steps({{60.0, 1}});
  const decision::RunResult without = run_ok(early, same, run_options);
  EXPECT_LT(without.duration_s, 30.0);
  EXPECT_EQ(without.completed, result.completed);
}

TEST(RunTogether, FleetsAreThoseOfEachMoment) {
  const workload::Workload load = random_workload(200, 4.0, 1);
  const RunOptions run_options = options(pool(1));
  Scripted growing = steps({{10.5, 3}});
  SharedFleets fleets;
  std::vector<std::pair<core::Instant, planner::global::PoolCounts>> seen;
  fleets.changed = [&](core::Instant now) { seen.emplace_back(now, fleets.replicas.at(0).at(0)); };
  const std::array runs{SharedRun{&load, &growing, &run_options}};
  ASSERT_TRUE(run_together(runs, &fleets));
  ASSERT_EQ(seen.size(), 2U) << "a replica that becomes ready changes no count";
  EXPECT_EQ(seen[0], std::pair(core::kStart, planner::global::PoolCounts{1, 1, 0}));
  EXPECT_EQ(seen[1], std::pair(at_s(11.0), planner::global::PoolCounts{3, 3, 0}));
}

// Proposals that change at random every few decisions.
std::unique_ptr<decision::Policy> fickle(std::uint64_t seed) {
  struct State {
    core::RandomStream random;
    std::uint32_t proposed[2] = {1, 1};
  };
  auto state = std::make_shared<State>(State{core::RandomStream{seed}});
  return std::make_unique<Scripted>([state](const signals::Observation&, std::size_t pool) {
    if (state->random.below(7) == 0) state->proposed[pool] = static_cast<std::uint32_t>(1 + state->random.below(9));
    return state->proposed[pool];
  });
}

// Two aggregated deployments, and one with prefill and decode pools that exchange replicas or have different ones.
RunOptions options_of(std::uint64_t deployment, std::uint64_t seed) {
  RunOptions made = deployment < 2 ? options(pool(2, 9)) : testing::disaggregated(1, 1);
  if (deployment == 2 && seed % 2 == 0) made.pools[1].gpus_per_replica = 2;
  if (deployment == 2 && seed % 2 == 1)
    for (PoolSpec& spec : made.pools) spec.switch_time = std::chrono::seconds{3};
  made.seed = seed * 10 + deployment;
  made.faults.crashes_per_replica_hour = seed % 4 < 2 ? 20.0 : 0.0;
  made.faults.refused_actions = seed % 3 == 0 ? 0.3 : 0.0;
  return made;
}

TEST(RunTogether, NoMomentHasMoreGpusThanTheBudgetWhateverPoliciesProposeAndPlatformsRefuse) {
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    const std::uint64_t gpus = 7 + seed % 4;
    std::vector<workload::Workload> workloads;
    std::vector<RunOptions> all;
    std::vector<DeploymentClaim> claims;
    for (std::uint64_t i = 0; i < 3; ++i) {
      workloads.push_back(random_workload(600, 2.0 + static_cast<double>(i), seed * 10 + i));
      all.push_back(options_of(i, seed));
      claims.push_back(claim("d" + std::to_string(i), i == 0 ? 1 : 0, all.back().pools));
    }
    SharedBudget budget = budget_of(gpus, claims);
    SharedFleets fleets;
    budget.set_counts([&](std::size_t deployment) { return fleets.replicas[deployment]; });
    std::uint32_t most = 0;
    fleets.changed = [&](core::Instant now) {
      std::uint32_t in_use = 0;
      for (std::size_t d = 0; d < fleets.replicas.size(); ++d)
        for (std::size_t p = 0; p < fleets.replicas[d].size(); ++p)
          in_use += (fleets.replicas[d][p].running + fleets.replicas[d][p].draining) * all[d].pools[p].gpus_per_replica;
      EXPECT_LE(in_use, gpus) << "seed " << seed << " at " << core::to_seconds(now.time_since_epoch()) << " s";
      most = std::max(most, in_use);
    };
    std::vector<std::unique_ptr<decision::Policy>> policies;
    std::vector<SharedRun> runs;
    for (std::size_t i = 0; i < 3; ++i) {
      policies.push_back(budget.limited(i, fickle(seed * 10 + i)));
      runs.push_back({&workloads[i], policies[i].get(), &all[i]});
    }
    ASSERT_TRUE(run_together(runs, &fleets));
    EXPECT_GE(most, gpus - 1) << "the budget was the limit";
  }
}

}  // namespace
}  // namespace penstock::simulation
