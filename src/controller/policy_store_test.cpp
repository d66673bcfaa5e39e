#include "controller/policy_store.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "connect/kubernetes/object_server_testing.h"
#include "controller/live_testing.h"
#include "controller/policy_store_testing.h"
#include "logging/log_testing.h"

namespace penstock::controller {
namespace {

using namespace std::chrono_literals;
using logging::Event;

const core::Error kUnreadable{core::ErrorCode::kEnvironment, "policy.json", "cannot read: Input/output error", {}};

// A planner with one GPU at 2 USD an hour, at a time that a test moves.
struct Planner {
  explicit Planner(std::shared_ptr<PolicyStore> store) : keeper{std::move(store), log, {"chat"}} {}

  void restore() {
    keeper.restore(
        loop, costs, [this] { return now; }, [this] { ++restored; });
  }
  void restore_again() {
    keeper.restore_again(loop, costs, [this] { return now; });
  }
  void save() { keeper.save(loop, costs.costs()); }
  void pass(core::Duration time, bool decides = true) {
    now += time;
    signals::Observation seen;
    seen.now = now;
    seen.pools.emplace_back().name = "chat";
    seen.pools[0].ready = 1;
    if (decides) {
      static_cast<void>(loop.tick(seen, [](std::size_t, std::uint32_t) { return true; }));
      keeper.ticked();
    } else {
      static_cast<void>(loop.hold(seen, "no data"));
    }
    costs.count(now, loop.totals(), std::vector<std::string>{"chat"}, {});
  }
  [[nodiscard]] core::Duration gpu_time() const { return costs.gpu_time("chat"); }

  logging::testing::CapturedLog log;
  core::Instant now = core::kStart;
  ScriptedPolicy policy;
  decision::DecisionLoop loop{policy, {2.0}};
  GpuCostMeter costs{core::kStart, 1'000'000'000};
  PolicyKeeper keeper;
  int restored = 0;
};

class PolicyKeeperTest : public ::testing::Test {
 protected:
  // Another planner has decided `decisions` times, an hour apart, and saved its state.
  void save_state(int decisions) {
    Planner other{store};
    other.restore();
    for (int i = 0; i < decisions; ++i) other.pass(i == 0 ? 0h : 1h);
    other.save();
    store->saves = store->loads = 0;
  }
  [[nodiscard]] core::Duration saved_gpu_time() const { return store->state->costs->pools.at(0).gpu_time; }

  std::shared_ptr<ScriptedStore> store = std::make_shared<ScriptedStore>();
  Planner planner{store};
};

TEST_F(PolicyKeeperTest, WhatCouldNotBeReadIsNotReplacedAndIsContinuedLater) {
  save_state(11);
  store->error = kUnreadable;
  planner.restore();
  EXPECT_EQ(planner.restored, 1) << "the planner decides without the state";
  planner.pass(0h);
  planner.pass(2h);
  planner.save();
  planner.restore_again();
  planner.pass(1h);
  planner.save();
  EXPECT_EQ(store->saves, 0);
  EXPECT_FALSE(planner.keeper.has_read());
  ASSERT_EQ(planner.log.count(Event::kFileUnwritable), 1U);
  EXPECT_NE(planner.log.lines(Event::kFileUnwritable)[0].find("cannot read: Input/output error"), std::string::npos);
  EXPECT_EQ(planner.log.count(Event::kPolicyState), 0U);

  store->error.reset();
  planner.restore_again();
  EXPECT_TRUE(planner.keeper.has_read());
  EXPECT_EQ(planner.gpu_time(), core::Duration{13h}) << "those of both, each once";
  EXPECT_EQ(planner.policy.decided, 11) << "what the policy knew before";
  EXPECT_EQ(planner.log.lines(Event::kPolicyState), std::vector<std::string>{"policy_state message=restored"});
  planner.pass(1h);
  planner.save();
  EXPECT_EQ(planner.policy.decided, 12);
  EXPECT_EQ(saved_gpu_time(), core::Duration{14h});
  EXPECT_EQ(planner.log.count(Event::kFileWritable), 1U);
  planner.restore_again();
  EXPECT_EQ(store->loads, 3) << "it is read once";
}

TEST_F(PolicyKeeperTest, AStateThatComesLateAndDoesNotFitLeavesThePolicyWhatItHasLearned) {
  save_state(3);
  store->state->state.policy = "another";
  store->error = kUnreadable;
  planner.restore();
  planner.pass(0h);
  planner.pass(1h);
  store->error.reset();
  planner.restore_again();
  EXPECT_EQ(planner.policy.decided, 2);
  EXPECT_EQ(planner.gpu_time(), core::Duration{3h});
  planner.pass(1h);
  EXPECT_EQ(planner.policy.decided, 3);
}

TEST_F(PolicyKeeperTest, APlannerThatFollowedDoesNotAddTheCostsThatTheLeaderCounted) {
  for (const bool is_saved : {true, false}) {
    Planner follower{store};
    if (is_saved) save_state(6);
    if (!is_saved) store->state.reset();
    follower.pass(0h, false);
    follower.pass(5h, false);
    store->error = kUnreadable;
    follower.restore();
    follower.pass(1h);
    store->error.reset();
    follower.restore_again();
    EXPECT_EQ(follower.gpu_time(), core::Duration{6h}) << "5 h until it leads, and then one";
  }
}

TEST_F(PolicyKeeperTest, OneReadIsInProgressAtATimeAndNothingIsSavedMeanwhile) {
  save_state(2);
  store->is_late = true;
  planner.restore();
  planner.restore_again();
  planner.save();
  EXPECT_EQ(store->loads, 1);
  EXPECT_EQ(store->saves, 0);
  EXPECT_EQ(planner.restored, 0);
  store->waiting(StoredState{store->state, {}});
  EXPECT_EQ(planner.restored, 1);
  planner.save();
  EXPECT_EQ(store->saves, 1);
}

TEST_F(PolicyKeeperTest, CostsBeforeTheFirstDecisionAreSavedWithTheStateThatWasRead) {
  save_state(3);
  const connect::SavedPolicyState before = *store->state;
  planner.restore();
  planner.pass(0h, false);
  planner.pass(4h, false);
  planner.save();
  EXPECT_EQ(saved_gpu_time(), core::Duration{6h});
  EXPECT_EQ(store->state->state.values, before.state.values);
  EXPECT_EQ(store->state->state.at, before.state.at);
  EXPECT_EQ(store->state->saved_unix_ms, before.saved_unix_ms);
  planner.pass(1h);
  planner.save();
  EXPECT_NE(store->state->state.values, before.state.values);
}

TEST_F(PolicyKeeperTest, CostsBeforeTheFirstDecisionOfAllAreSavedWithoutAState) {
  planner.restore();
  planner.pass(0h, false);
  planner.pass(4h, false);
  planner.save();
  // The text has all that a reader requires.
  store->state = *connect::read_policy_state(connect::policy_state_text(*store->state), "policy.json");
  Planner next{store};
  next.restore();
  EXPECT_EQ(next.gpu_time(), core::Duration{4h});
  EXPECT_EQ(next.log.lines(Event::kPolicyState),
            std::vector<std::string>{"policy_state message=\"restored: the GPU cost of a time without decisions\""});
  next.pass(0h);
  EXPECT_EQ(next.policy.decided, 1);
}

TEST_F(PolicyKeeperTest, MeasuredStartUpTimesAreSavedAndRestored) {
  const auto keep = [](Planner& kept, std::vector<connect::PoolStartUp>& times) {
    kept.keeper.keep_start_up([&] { return times; }, [&](const auto& saved) { times = saved; });
  };
  std::vector<connect::PoolStartUp> measured{{"chat", 60s, {90s, 80s}}}, next;
  Planner before{store};
  keep(before, measured);
  before.restore();
  before.pass(0h, false);
  before.save();
  // The text has all that a reader requires.
  store->state = *connect::read_policy_state(connect::policy_state_text(*store->state), "policy.json");
  keep(planner, next);
  planner.restore();
  ASSERT_EQ(next.size(), 1U);
  EXPECT_EQ(next[0].pool, "chat");
  EXPECT_EQ(next[0].configured, core::Duration{60s});
  EXPECT_EQ(next[0].times, (std::vector<core::Duration>{90s, 80s}));
}

TEST_F(PolicyKeeperTest, ATextThatCannotBeUsedIsReplaced) {
  store->unusable_because = "invalid JSON at byte 7";
  planner.restore();
  planner.pass(0h);
  planner.save();
  EXPECT_EQ(store->saves, 1);
  EXPECT_EQ(planner.log.lines(Event::kPolicyState),
            std::vector<std::string>{"policy_state message=\"ignored: invalid JSON at byte 7\""});
}

// ---- stores ---------------------------------------------------------------------------------------------------------

core::Result<StoredState> loaded_from(PolicyStore& store) {
  std::optional<core::Result<StoredState>> found;
  store.load([&](core::Result<StoredState> loaded) { found = std::move(loaded); });
  return *found;
}

TEST(PolicyStateFile, AFileThatIsNoStateIsKeptUnderAnotherName) {
  const std::string path = ::testing::TempDir() + "penstock-unusable.json";
  std::filesystem::remove(path);
  std::filesystem::remove(path + ".unusable");
  PolicyStateFile store{path};
  const auto absent = loaded_from(store);
  ASSERT_TRUE(absent);
  EXPECT_FALSE(absent->state);
  EXPECT_EQ(absent->unusable_because, "");
  std::ofstream{path} << "{\"version\": ";
  const auto odd = loaded_from(store);
  ASSERT_TRUE(odd);
  EXPECT_FALSE(odd->state);
  EXPECT_NE(odd->unusable_because.find("invalid JSON"), std::string::npos) << odd->unusable_because;
  EXPECT_TRUE(odd->unusable_because.ends_with("; it is kept as " + path + ".unusable"));
  std::string kept;
  std::getline(std::ifstream{path + ".unusable"}, kept);
  EXPECT_EQ(kept, "{\"version\": ");
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(PolicyStateFile, AFileThatCannotBeReadIsAnErrorAndStays) {
  const std::string path = ::testing::TempDir() + "penstock-unreadable.json";
  std::filesystem::create_directories(path);  // Also root cannot read it.
  PolicyStateFile store{path};
  EXPECT_FALSE(loaded_from(store));
  EXPECT_TRUE(std::filesystem::exists(path));
  EXPECT_FALSE(std::filesystem::exists(path + ".unusable"));
}

TEST(PolicyStateConfigMap, ARefusedReadIsAnErrorAndAnOddTextIsNot) {
  net::Loop loop;
  connect::testing::ObjectServer server{loop};
  net::Client http{loop};
  PolicyStateConfigMap store{
      *connect::KubernetesClient::start(loop, http, connect::testing::ObjectServer::options_for(server.address), {}),
      {"prod", "state"}};
  const auto load = [&] {
    std::optional<core::Result<StoredState>> found;
    store.load([&](core::Result<StoredState> loaded) { found = std::move(loaded); });
    EXPECT_TRUE(run_until(loop, [&] { return found.has_value(); }));
    return *found;
  };
  EXPECT_TRUE(load()) << "there is none";
  server.refuses = [](const std::string&, const std::string&) {
    return connect::testing::ObjectServer::Refusal{403, "Forbidden"};
  };
  EXPECT_FALSE(load());
  server.refuses = {};
  server.put("/api/v1/namespaces/prod/configmaps/state",
             {{"metadata", {{"name", "state"}}}, {"data", {{"policy.json", "odd"}}}});
  const auto odd = load();
  ASSERT_TRUE(odd);
  EXPECT_FALSE(odd->state);
  EXPECT_NE(odd->unusable_because.find("the GPU cost so far are lost"), std::string::npos) << odd->unusable_because;
}

}  // namespace
}  // namespace penstock::controller
