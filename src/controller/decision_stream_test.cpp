#include "controller/decision_stream.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>

#include "report/decision_log.h"

namespace penstock::controller {
namespace {

using namespace std::chrono_literals;

// Keeps what it sees, and proposes what the test wants.
class Recorder final : public decision::Policy {
 public:
  [[nodiscard]] std::string_view name() const override { return "recorder"; }
  [[nodiscard]] core::Duration interval() const override { return 5s; }
  [[nodiscard]] core::Duration memory() const override { return 10min; }
  [[nodiscard]] decision::Decision decide(const signals::Observation& seen) override {
    last = seen;
    recent.assign(seen.recent.begin(), seen.recent.end());
    ++calls;
    decision::Decision made;
    for (const signals::PoolObservation& pool : seen.pools) {
      made.pools.push_back({pool.target_replicas, propose.value_or(pool.target_replicas), decision::Reason::kFixed});
      made.pools.back().asleep = leave_asleep;
    }
    return made;
  }

  signals::Observation last;
  std::vector<signals::RecentRequest> recent;
  int calls = 0;
  std::optional<std::uint32_t> propose;
  std::uint32_t leave_asleep = 0;
};

DecisionStreamOptions options(std::size_t pools = 1) {
  DecisionStreamOptions made;
  made.pools.resize(pools);
  for (signals::Pool& pool : made.pools) pool.max_replicas = 8;
  if (pools == 1) return made;
  made.pools[0].name = "prefill";
  made.pools[0].role = signals::Role::kPrefill;
  made.pools[1].name = "decode";
  made.pools[1].role = signals::Role::kDecode;
  return made;
}

DecisionStreamOptions with_sleep() {
  DecisionStreamOptions made = options();
  made.pools[0].start_up = 120s;
  made.pools[0].wake_time = 8s;
  return made;
}

struct World {
  explicit World(std::size_t pools = 1) : World(options(pools)) {}
  explicit World(DecisionStreamOptions of) : stream(policy, std::move(of)) {}

  DecisionStream::Answer take(double at_s, const std::string& pool = R"("ready": 2)",
                              const std::string& requests = "[]") {
    return stream.answer(fmt::format(R"({{"at_s": {}, "pools": [{{{}}}], "requests": {}}})", at_s, pool, requests),
                         ++number);
  }
  decision::DecisionRecord record(const DecisionStream::Answer& answer) {
    const auto read = report::parse_decision_jsonl(answer.text, "answer");
    EXPECT_TRUE(read && read->records.size() == 1) << answer.text;
    return read && !read->records.empty() ? read->records.front() : decision::DecisionRecord{};
  }

  Recorder policy;
  DecisionStream stream;
  std::uint64_t number = 0;
};

TEST(DecisionStream, EachLineIsAnsweredWithARecordOfADecisionLog) {
  World world;
  world.policy.propose = 3;
  const auto first = world.record(world.take(5));
  EXPECT_EQ(first.at, core::kStart + 5s);
  EXPECT_EQ(first.policy, "recorder");
  EXPECT_EQ(first.pool, "default");
  EXPECT_EQ(first.current, 2U) << "as many as there are";
  EXPECT_EQ(first.target, 3U);
  const auto second = world.record(world.take(10));
  EXPECT_EQ(second.current, 3U) << "the target that was decided is in force";
  EXPECT_EQ(second.target, 3U) << "a hold is answered, too";
  EXPECT_EQ(world.record(world.take(15, R"("ready": 2, "target": 2)")).current, 2U);
}

TEST(DecisionStream, TargetsStayWithinTheBoundsOfThePool) {
  World world;
  world.policy.propose = 100;
  EXPECT_EQ(world.record(world.take(5)).target, 8U);
}

TEST(DecisionStream, BetweenTheTicksOfThePolicyTheDecisionInForceIsTheAnswer) {
  World world;
  world.policy.propose = 4;
  static_cast<void>(world.take(5));
  world.policy.propose = 6;
  const auto early = world.record(world.take(7));
  EXPECT_EQ(early.at, core::kStart + 7s);
  EXPECT_EQ(early.target, 4U);
  EXPECT_EQ(world.policy.calls, 1);
  EXPECT_EQ(world.record(world.take(10)).target, 6U);
}

TEST(DecisionStream, ARequestWithoutAModelIsForThatOfTheFleet) {
  Recorder policy;
  DecisionStreamOptions made = options();
  made.model = "chat-8b";
  DecisionStream stream{policy, made};
  static_cast<void>(stream.answer(
      R"({"at_s": 5, "pools": [{"ready": 2}], "requests": [{"arrival_s": 1, "prompt_tokens": 1},
          {"arrival_s": 2, "prompt_tokens": 20, "model": "chat-8b"},
          {"arrival_s": 3, "prompt_tokens": 300, "model": "mail-8b"}]})",
      1));
  EXPECT_EQ(policy.last.pools[0].last_minute.input_tokens, 21U);
}

TEST(DecisionStream, RequestsBecomeWindowsAndRecentRequests) {
  World world;
  static_cast<void>(world.take(5, R"("ready": 2)", R"([{"id": 1, "arrival_s": 1, "prompt_tokens": 800, "blocks": [4]},
                                                      {"arrival_s": 3, "prompt_tokens": 100}])"));
  EXPECT_EQ(world.policy.last.pools[0].last_minute.arrivals, 2U);
  EXPECT_EQ(world.policy.last.pools[0].last_minute.input_tokens, 900U);
  const std::string ended = R"([{"id": 1, "arrival_s": 1, "prompt_tokens": 800, "ttft_ms": 500, "output_tokens": 101,
                                 "ended_s": 3.5}])";
  static_cast<void>(world.take(10, R"("ready": 2)", ended));
  static_cast<void>(world.take(15, R"("ready": 2)", ended));  // Told twice.
  const signals::TrafficWindow& window = world.policy.last.pools[0].last_minute;
  EXPECT_EQ(window.arrivals, 2U);
  EXPECT_EQ(window.completed, 1U);
  EXPECT_EQ(window.output_tokens, 101U);
  EXPECT_NEAR(window.ttft.p50_ms, 500.0, 10.0);
  EXPECT_NEAR(window.itl.p50_ms, 20.0, 1.0);
  ASSERT_EQ(world.policy.recent.size(), 2U);
  EXPECT_EQ(world.policy.recent[0].arrival, core::kStart + 1s);
  EXPECT_EQ(world.policy.recent[0].output_tokens, 101U);
  EXPECT_EQ(world.policy.recent[0].block_ids.size(), 1U);
  EXPECT_EQ(world.policy.recent[1].output_tokens, 0U) << "it is in flight";
}

TEST(DecisionStream, DeferredRequestsCountFromTheEndOfTheirWait) {
  World world;
  const std::string deferrable = R"("id": 1, "arrival_s": 1, "prompt_tokens": 800, "class": "batch",
                                    "completion_window_s": 600)";
  static_cast<void>(world.take(5, R"("ready": 2)", "[{" + deferrable + "}]"));
  EXPECT_EQ(world.policy.last.pools[0].last_minute.arrivals, 1U) << "it arrives at once";
  ASSERT_EQ(world.policy.recent.size(), 1U);
  EXPECT_EQ(world.policy.recent[0].completion_window, 10min);
  static_cast<void>(world.take(40, R"("ready": 2)", "[{" + deferrable + R"(, "deferred_s": 30, "ttft_ms": 500,
                                   "output_tokens": 101, "ended_s": 33.5}])"));
  EXPECT_NEAR(world.policy.last.pools[0].last_minute.ttft.p50_ms, 500.0, 10.0);
  EXPECT_NEAR(world.policy.last.pools[0].last_minute.itl.p50_ms, 20.0, 1.0);
  ASSERT_EQ(world.policy.recent.size(), 1U);
  EXPECT_FLOAT_EQ(world.policy.recent[0].deferred_ms, 30'000.0F);
  EXPECT_FLOAT_EQ(world.policy.recent[0].e2e_ms, 2'500.0F);
}

TEST(DecisionStream, AWindowOfThePoolReplacesThatOfTheRequests) {
  World world;
  const std::string window = R"("ready": 2, "failed_total": 3, "last_minute":
    {"arrivals": 60, "prompt_tokens": 6000, "output_tokens": 600})";
  EXPECT_FALSE(world.stream.answer(R"({"at_s": 5, "pools": [{)" + window + "}]}", 1).is_error);
  EXPECT_EQ(world.policy.last.pools[0].last_minute.arrivals, 60U);
  EXPECT_EQ(world.policy.last.pools[0].failed_total, 3U);
  EXPECT_TRUE(world.policy.recent.empty());
}

TEST(DecisionStream, ReplicasKeepTheirNumbers) {
  World world;
  static_cast<void>(world.take(5, R"("replicas": [{"id": "a"}, {"id": "b", "state": "starting"}])"));
  const auto before = world.policy.last.pools[0].replicas;
  static_cast<void>(world.take(10, R"("replicas": [{"id": "b"}, {"id": "c"}])"));
  const auto& after = world.policy.last.pools[0].replicas;
  EXPECT_EQ(after[0].replica, before[1].replica);
  EXPECT_EQ(after[0].state_since, core::kStart + 10s);
  EXPECT_NE(after[1].replica, before[0].replica);
}

TEST(DecisionStream, CountsAloneBecomeReplicasWithoutTelemetry) {
  World world;
  static_cast<void>(world.take(5, R"("ready": 1, "starting": 1)"));
  const auto before = world.policy.last.pools[0].replicas;
  static_cast<void>(world.take(10, R"("ready": 2)"));
  const auto grown = world.policy.last.pools[0].replicas;
  ASSERT_EQ(grown.size(), 2U);
  EXPECT_EQ(grown[1].replica, before[1].replica) << "the one that was starting";
  EXPECT_EQ(grown[1].state, signals::ReplicaState::kReady);
  EXPECT_FALSE(grown[0].sample);
  static_cast<void>(world.take(15, R"("ready": 1, "draining": 1)"));
  EXPECT_EQ(world.policy.last.pools[0].replicas[0].replica, grown[0].replica);
  EXPECT_EQ(world.policy.last.pools[0].replicas[1].state, signals::ReplicaState::kDraining);
  static_cast<void>(world.take(20, R"("ready": 1)"));
  EXPECT_EQ(world.policy.last.pools[0].replicas.size(), 1U);
}

TEST(DecisionStream, PoolsAreFoundByTheirNames) {
  World world{2};
  const auto answer = world.stream.answer(
      R"({"at_s": 5, "pools": [{"pool": "decode", "ready": 4}, {"pool": "prefill", "ready": 2}], "requests": []})", 1);
  const auto records = report::parse_decision_jsonl(answer.text, "answer");
  ASSERT_TRUE(records && records->records.size() == 2) << answer.text;
  EXPECT_EQ(records->records[0].pool, "prefill");
  EXPECT_EQ(records->records[0].current, 2U);
  EXPECT_EQ(records->records[1].current, 4U);
}

TEST(DecisionStream, ABrokenLineIsAnsweredAndChangesNothing) {
  World world;
  static_cast<void>(world.take(5));
  const auto broken = world.stream.answer("{\"at_s\": 7, \x01", 2);
  EXPECT_TRUE(broken.is_error);
  EXPECT_EQ(broken.text, "{\"error\":\"observation: invalid JSON at byte 13\",\"line\":2}\n");
  EXPECT_EQ(world.stream.answer(R"({"at_s": 7, "pools": [{"ready": 2}]})", 3).text,
            "{\"error\":\"observation: requests: is missing; give an empty list if there were none, or last_minute for "
            "each pool\",\"line\":3}\n");
  EXPECT_EQ(world.policy.calls, 1);
  EXPECT_FALSE(world.take(10).is_error);
}

TEST(DecisionStream, AClockThatGoesBackOrStandsIsAnError) {
  World world;
  static_cast<void>(world.take(100));
  for (const double at : {100.0, 99.0, 0.0}) {
    const auto answer = world.take(at);
    EXPECT_TRUE(answer.is_error) << at;
    EXPECT_NE(answer.text.find("at_s: must be later than in line 1 (100 s)"), std::string::npos) << answer.text;
  }
  EXPECT_EQ(world.policy.calls, 1);
}

TEST(DecisionStream, AfterAJumpOfTheClockNothingIsDecided) {
  World world;
  static_cast<void>(world.take(5));
  world.policy.propose = 1;
  const auto held = world.record(world.take(5000));
  EXPECT_EQ(held.reason, decision::Reason::kNoData);
  EXPECT_EQ(held.target, held.current);
  EXPECT_NE(held.diagnosis.find("the clock jumped by 4995 s"), std::string::npos) << held.diagnosis;
  EXPECT_EQ(world.policy.calls, 1);
  EXPECT_EQ(world.record(world.take(5005)).target, 1U);
}

TEST(DecisionStream, ContradictoryFiguresNeverReachThePolicy) {
  World world;
  const auto answer = world.take(5, R"("replicas": [{"id": 1, "running_requests": 0, "queued_requests": 0,
    "queued_prompt_tokens": 500, "kv_usage": 0.1}])");
  ASSERT_EQ(answer.warnings.size(), 1U);
  EXPECT_NE(answer.warnings[0].find("queue_disagrees"), std::string::npos);
  EXPECT_FALSE(world.policy.last.pools[0].replicas[0].sample);
}

TEST(DecisionStream, UnknownPoolsAndTooManyBlocksAreErrors) {
  World world;
  EXPECT_NE(world.take(5, R"("pool": "other", "ready": 1)").text.find("is not the name of a configured pool"),
            std::string::npos);
  EXPECT_NE(world.take(5, R"("ready": 1)", R"([{"arrival_s": 1, "prompt_tokens": 600, "blocks": [1, 2, 3]}])")
                .text.find("requests[0].blocks: must be at most 2 for this prompt, with 512 tokens each"),
            std::string::npos);
  World two{2};
  EXPECT_NE(two.take(5).text.find("must have the 2 configured, has 1"), std::string::npos);
  EXPECT_EQ(world.policy.calls + two.policy.calls, 0);
}

// ---- replicas asleep ----

TEST(DecisionStream, AReplicaThatDrainsFallsAsleepAndWakesUpAsTheSame) {
  World world{with_sleep()};
  static_cast<void>(world.take(5, R"("ready": 2)"));
  const std::uint32_t second = world.policy.last.pools[0].replicas[1].replica;
  static_cast<void>(world.take(10, R"("ready": 1, "draining": 1)"));
  static_cast<void>(world.take(15, R"("ready": 1, "asleep": 1)"));
  EXPECT_EQ(world.policy.last.pools[0].asleep, 1U);
  ASSERT_EQ(world.policy.last.pools[0].replicas.size(), 2U);
  EXPECT_EQ(world.policy.last.pools[0].replicas[1].state, signals::ReplicaState::kAsleep);
  EXPECT_EQ(world.policy.last.pools[0].replicas[1].replica, second);
  static_cast<void>(world.take(20, R"("ready": 1, "starting": 1)"));
  EXPECT_EQ(world.policy.last.pools[0].replicas[1].state, signals::ReplicaState::kStarting);
  EXPECT_EQ(world.policy.last.pools[0].replicas[1].replica, second);
  static_cast<void>(world.take(25, R"("replicas": [{"id": "a"}, {"id": "b", "state": "asleep"}])"));
  EXPECT_EQ(world.policy.last.pools[0].asleep, 1U);
}

TEST(DecisionStream, TheAsleepTargetIsThatOfTheLastDecision) {
  World world{with_sleep()};
  world.policy.leave_asleep = 2;
  EXPECT_EQ(world.record(world.take(5, R"("ready": 2, "asleep": 1)")).asleep, 2U);
  EXPECT_EQ(world.policy.last.pools[0].asleep_target, 1U) << "before a decision, what is asleep";
  static_cast<void>(world.take(10, R"("ready": 2, "asleep": 1)"));
  EXPECT_EQ(world.policy.last.pools[0].asleep_target, 2U);
  static_cast<void>(world.take(15, R"("ready": 2, "asleep": 1, "asleep_target": 0)"));
  EXPECT_EQ(world.policy.last.pools[0].asleep_target, 0U);
}

TEST(DecisionStream, APoolWithoutAWakeTimeHasNoReplicasAsleep) {
  World world;
  for (const char* pool : {R"("ready": 1, "asleep": 1)", R"("ready": 1, "asleep_target": 1)",
                           R"("replicas": [{"id": "a", "state": "asleep"}])"}) {
    const auto answer = world.take(5, pool);
    EXPECT_TRUE(answer.is_error);
    EXPECT_NE(answer.text.find("observation: pools[0].asleep: is above 0 in a pool whose replicas do not sleep"),
              std::string::npos)
        << answer.text;
  }
}

}  // namespace
}  // namespace penstock::controller
