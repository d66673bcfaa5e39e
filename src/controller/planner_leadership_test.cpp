// Planners that share a fleet: the one that does not lead observes and changes nothing.
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "controller/leadership.h"
#include "controller/live_testing.h"
#include "controller/planner_daemon.h"
#include "controller/policy_store_testing.h"
#include "controller/shared_targets.h"
#include "logging/log_testing.h"

namespace penstock::controller {
namespace {

using namespace std::chrono_literals;

class ScriptedLeadership final : public Leadership {
 public:
  [[nodiscard]] bool may_act() const override {
    if (asks_left > 0 && --asks_left == 0) leads = false;
    return leads;
  }
  [[nodiscard]] std::uint64_t term() const override { return its_term; }
  [[nodiscard]] std::string leader() const override { return leads ? "me" : "planner-b"; }
  [[nodiscard]] bool follows() const override { return knows_leader; }
  [[nodiscard]] std::string targets_of_leader() const override { return targets; }

  mutable bool leads = false;
  bool knows_leader = false;
  std::string targets;
  mutable int asks_left = 0;  // Until the lead is lost; 0: never.
  std::uint64_t its_term = 0;
};

class PlannerLeadershipTest : public ::testing::Test {
 protected:
  PlannerDaemon& open() {
    signals::EngineSample sample;
    sample.sampled_at = loop.now();
    fleet.views = {{"chat-1",
                    "serving",
                    "http://127.0.0.1:9",
                    loop.now(),
                    {1, signals::ReplicaState::kReady, loop.now(), sample}}};
    DaemonOptions options;
    signals::Pool pool;
    pool.name = "chat";
    pool.max_replicas = 9;
    options.pools = {pool};
    options.observe_only = false;
    options.gateways.hosts = {{"127.0.0.1", gateway.address().port()}};
    options.gateways.interval = 20ms;
    options.point_interval = 50ms;
    options.policy_state_interval = 0ms;
    options.policy_store = store;
    options.leadership = &leadership;
    daemon.emplace(loop, client, fleet, policy, std::move(options), log,
                   [this](const decision::DecisionRecord& record) { records.push_back(record); });
    return *daemon;
  }
  void lead(std::uint64_t term) {
    leadership.its_term = term;
    leadership.leads = true;
    daemon->follow_leadership();
  }
  void follow() {
    leadership.leads = false;
    daemon->follow_leadership();
  }
  // Until the planner has data, and has recorded that it follows.
  void until_data() {
    until([&] { return daemon->last_decision().has_value() && daemon->data() == signals::DataState::kKnown; });
  }
  void until(const std::function<bool()>& condition) { EXPECT_TRUE(run_until(loop, condition)); }

  net::Loop loop;
  ScriptedGateway gateway{loop};
  net::Client client{loop};
  ScriptedPolicy policy;
  ScriptedFleet fleet;
  ScriptedLeadership leadership;
  std::shared_ptr<ScriptedStore> store = std::make_shared<ScriptedStore>();
  std::vector<decision::DecisionRecord> records;
  logging::testing::CapturedLog log;
  std::optional<PlannerDaemon> daemon;
};

TEST_F(PlannerLeadershipTest, AFollowerObservesAndChangesNothing) {
  policy.target = 5;
  open();
  until([&] { return daemon->last_decision().has_value() && daemon->points().size() > 1; });
  EXPECT_EQ(policy.decided, 0);
  EXPECT_TRUE(fleet.wants.empty());
  EXPECT_STREQ(daemon->mode(), "follow");
  ASSERT_FALSE(records.empty());
  EXPECT_EQ(records[0].reason, decision::Reason::kFollower);
  EXPECT_EQ(records[0].diagnosis, "another planner leads: planner-b");
  EXPECT_FALSE(daemon->has_target());
  ASSERT_EQ(daemon->recommended().size(), 1U);
  EXPECT_EQ(daemon->recommended()[0].replicas, std::nullopt);
  EXPECT_EQ(daemon->recommended()[0].unknown_because, "another planner leads: planner-b");
  const std::string metrics = daemon->metrics_text();
  EXPECT_NE(metrics.find("\npenstock_leader 0\n"), std::string::npos) << metrics;
  EXPECT_EQ(metrics.find("penstock_target_replicas{"), std::string::npos);
  EXPECT_EQ(store->loads, 0);
  EXPECT_EQ(store->saves, 0);
}

TEST_F(PlannerLeadershipTest, AFollowerAnswersAsTheLeaderThatItKnows) {
  open();
  until_data();
  EXPECT_FALSE(daemon->is_ready());
  leadership.knows_leader = true;
  EXPECT_TRUE(daemon->is_ready());
  EXPECT_EQ(daemon->recommended()[0].replicas, std::nullopt);
  EXPECT_EQ(daemon->recommended()[0].unknown_because, "another planner leads: planner-b, and its target is unknown");
  leadership.targets = R"({"chat":7,"other":3})";
  EXPECT_EQ(daemon->recommended()[0].replicas, 7U);
  EXPECT_EQ(daemon->metrics_text().find("penstock_target_replicas{"), std::string::npos) << "one series of one planner";
  leadership.targets = R"({"other":3})";
  EXPECT_EQ(daemon->recommended()[0].replicas, std::nullopt) << "never 0";
  leadership.targets = R"({"chat":7})";
  leadership.knows_leader = false;
  EXPECT_EQ(daemon->recommended()[0].replicas, std::nullopt) << "the leader may be gone";
}

TEST(SharedTargets, AreReadAsTheyWereWritten) {
  const std::vector<connect::RecommendedReplicas> pools = {
      {"chat", "m", 7, {}}, {"idle", "m", 0, {}}, {"unknown", "m", std::nullopt, "no data"}};
  EXPECT_EQ(format_targets(pools), R"({"chat":7,"idle":0})");
  EXPECT_EQ(parse_targets(format_targets(pools)), (std::map<std::string, std::uint32_t>{{"chat", 7}, {"idle", 0}}));
  EXPECT_EQ(parse_targets(R"({"a":-1,"b":2.5,"c":"3","d":99999999999,"e":4})"),
            (std::map<std::string, std::uint32_t>{{"e", 4}}));
  for (const char* odd : {"", "{", "[1]", "7"}) EXPECT_TRUE(parse_targets(odd).empty()) << odd;
}

TEST_F(PlannerLeadershipTest, ANewLeaderShrinksNothingAtItsFirstTick) {
  fleet.target = 6;
  policy.target = 2;
  open();
  until_data();
  lead(1);
  EXPECT_EQ(policy.decided, 1) << "it decides at once";
  EXPECT_EQ(fleet.wants, std::vector<std::uint32_t>{6}) << "a fleet does not know the targets of the former leader";
  EXPECT_EQ(daemon->recommended()[0].replicas, 6U) << "other autoscalers follow it";
  EXPECT_NE(daemon->metrics_text().find("\npenstock_leader 1\n"), std::string::npos);
  until([&] { return fleet.target == 2; });
  EXPECT_EQ(policy.decided, 2);
  // The same after a break without another leader, such as an API server that was away.
  follow();
  EXPECT_EQ(daemon->recommended()[0].replicas, std::nullopt);
  EXPECT_EQ(fleet.forgotten, 1);
  policy.target = 1;
  lead(1);
  EXPECT_EQ(fleet.target, 2U);
  EXPECT_EQ(store->loads, 1) << "no other planner has led";
  until([&] { return fleet.target == 1; });
}

TEST_F(PlannerLeadershipTest, ANewLeaderReadsWhatTheFormerOneLearned) {
  open();
  until_data();
  lead(1);
  until([&] { return policy.decided >= 3; });
  ASSERT_TRUE(store->state);
  const connect::SavedPolicyState saved = *store->state;
  follow();
  const int saves = store->saves;
  until([&] { return records.size() > 2 && daemon->points().size() > 2; });
  EXPECT_EQ(store->saves, saves) << "a follower saves nothing";

  // Another planner led, and learned more.
  store->state = saved;
  store->is_late = true;
  const int before = policy.decided;
  lead(2);
  EXPECT_EQ(policy.decided, 0) << "what this planner knew is older";
  EXPECT_FALSE(daemon->has_target());
  // It loses the lead and gets it back before the state is there.
  const PolicyStore::Loaded first = store->waiting;
  follow();
  lead(3);
  first(StoredState{store->state, {}});
  EXPECT_FALSE(daemon->has_target()) << "another planner may have saved since";
  store->waiting(StoredState{store->state, {}});
  EXPECT_GE(policy.decided, before - 1);
  EXPECT_TRUE(daemon->has_target());
  EXPECT_EQ(log.lines(logging::Event::kPolicyState).back(), "policy_state message=restored");
}

TEST_F(PlannerLeadershipTest, ANewLeaderThatCannotReadTheStateDecidesAndSavesNothingUntilItCan) {
  open();
  until_data();
  lead(1);
  until([&] { return policy.decided >= 3; });
  connect::SavedPolicyState saved = *store->state;
  saved.costs.emplace().pools = {{"chat", 1000h, 0.0}};
  follow();

  store->state = saved;
  store->error = core::Error{core::ErrorCode::kEnvironment, "ConfigMap", "is forbidden", {}};
  const int saves = store->saves, loads = store->loads;
  lead(2);
  until([&] { return policy.decided >= 3 && store->loads > loads + 2; });
  EXPECT_TRUE(daemon->has_target());
  EXPECT_EQ(store->saves, saves);
  EXPECT_LT(daemon->gpu_costs().gpu_time("chat"), 1000h);
  EXPECT_EQ(log.count(logging::Event::kFileUnwritable), 1U);
  const int decided = policy.decided;

  store->error.reset();
  until([&] { return store->saves > saves; });
  EXPECT_GE(store->state->costs->pools.at(0).gpu_time, 1000h);
  EXPECT_GT(daemon->gpu_costs().gpu_time("chat"), 1000h);
  EXPECT_EQ(log.lines(logging::Event::kPolicyState).back(), "policy_state message=restored");
  EXPECT_EQ(log.count(logging::Event::kFileWritable), 1U);
  until([&] { return policy.decided != decided; });
  EXPECT_TRUE(daemon->has_target());
}

TEST_F(PlannerLeadershipTest, TheGpuCostIsSavedWhileNothingCanBeDecided) {
  gateway.status = 500;
  store->state.emplace();
  store->state->state.policy = "another";
  store->state->saved_unix_ms = 7;
  store->state->costs.emplace().pools = {{"chat", 1000h, 0.0}};
  open();
  lead(1);
  until([&] { return store->saves > 3; });
  EXPECT_EQ(policy.decided, 0);
  EXPECT_EQ(store->state->state.policy, "another");
  EXPECT_EQ(store->state->saved_unix_ms, 7);
  EXPECT_GT(store->state->costs->pools.at(0).gpu_time, 1000h);
}

TEST_F(PlannerLeadershipTest, NothingChangesIfTheLeadIsLostDuringTheDecision) {
  policy.target = 5;
  open();
  until([&] { return daemon->last_decision().has_value(); });
  leadership.its_term = 1;
  leadership.leads = true;
  leadership.asks_left = 2;  // It leads when the tick begins, and not when the target is set.
  daemon->follow_leadership();
  EXPECT_EQ(policy.decided, 1);
  EXPECT_TRUE(fleet.wants.empty());
}

TEST_F(PlannerLeadershipTest, TheEndSavesOnceMore) {
  open();
  until([&] { return daemon->last_decision().has_value(); });
  lead(1);
  until([&] { return policy.decided == 2; });
  const int saves = store->saves;
  bool ended = false;
  daemon->end([&] { ended = true; });
  EXPECT_TRUE(ended);
  EXPECT_EQ(store->saves, saves + 1);
  daemon.reset();
  EXPECT_EQ(store->saves, saves + 1);
}

}  // namespace
}  // namespace penstock::controller
