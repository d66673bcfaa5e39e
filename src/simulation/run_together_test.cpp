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

DeploymentClaim claim(const std::string& name, int priority, const PoolSpec& spec) {
  planner::global::PoolClaim made;
  made.name = spec.name;
  made.min_replicas = spec.min_replicas;
  made.max_replicas = spec.max_replicas;
  made.target = made.proposed = spec.replicas;
  return {name, priority, 1.0, {made}};
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
  SharedBudget budget = budget_of(8, {claim("chat", 1, of_chat.pools[0]), claim("mail", 0, of_mail.pools[0])});
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

}  // namespace
}  // namespace penstock::simulation
