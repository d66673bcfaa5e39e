#include "controller/output_tokens.h"

#include <gtest/gtest.h>

#include <optional>
#include <vector>

namespace penstock::controller {
namespace {

using namespace std::chrono_literals;
using signals::ReplicaState;

constexpr core::Instant kNow = core::kStart + 1000s;

struct Reported {
  std::uint32_t replica = 0;
  ReplicaState state = ReplicaState::kReady;
  std::optional<std::uint64_t> tokens;
};

signals::PoolObservation pool_of(const std::vector<Reported>& replicas) {
  signals::PoolObservation pool;
  for (const Reported& each : replicas) {
    signals::ReplicaObservation& made = pool.replicas.emplace_back();
    made.replica = each.replica;
    made.state = each.state;
    if (each.tokens) made.sample.emplace().generation_tokens_total = each.tokens;
  }
  return pool;
}

TEST(OutputTokens, EndedAnswersCountWithoutCounters) {
  OutputTokens output;
  output.ended(100, kNow);
  output.ended(50, kNow + 40s);
  output.observe(pool_of({{1, ReplicaState::kReady, {}}}), kNow + 50s);
  EXPECT_EQ(output.total(), 150U);
  EXPECT_EQ(output.within(60s, kNow + 50s), 150U);
  EXPECT_EQ(output.within(60s, kNow + 70s), 50U) << "the first is older than a minute";
  EXPECT_EQ(output.within(60s, kNow + 200s), 0U);
}

TEST(OutputTokens, CountersCountInPlaceOfEndedAnswers) {
  OutputTokens output;
  output.ended(100, kNow);
  output.observe(pool_of({{1, ReplicaState::kReady, 5000}}), kNow);
  EXPECT_EQ(output.total(), 100U) << "tokens from before the first report do not count";
  output.observe(pool_of({{1, ReplicaState::kReady, 5030}}), kNow + 5s);
  output.ended(30, kNow + 6s);
  EXPECT_EQ(output.total(), 130U) << "no token counts twice";
  output.observe(pool_of({{1, ReplicaState::kReady, {}}}), kNow + 10s);
  output.observe(pool_of({{1, ReplicaState::kReady, 5100}}), kNow + 15s);
  EXPECT_EQ(output.total(), 200U) << "a lost report delays its tokens";
  EXPECT_EQ(output.within(60s, kNow + 64s), 100U);
  EXPECT_EQ(output.within(60s, kNow + 65s), 70U) << "without the 30 of a minute ago";
}

TEST(OutputTokens, CountersOfNewAndRestartedEngines) {
  OutputTokens output;
  output.observe(pool_of({{1, ReplicaState::kReady, 40}, {2, ReplicaState::kStarting, {}}}), kNow);
  output.observe(pool_of({{1, ReplicaState::kReady, 40}, {2, ReplicaState::kReady, 7}}), kNow + 5s);
  EXPECT_EQ(output.total(), 7U) << "replica 2 was seen starting";
  output.observe(pool_of({{2, ReplicaState::kReady, 7}, {3, ReplicaState::kReady, 900}}), kNow + 10s);
  EXPECT_EQ(output.total(), 7U) << "replica 3 was not";
  output.observe(pool_of({{2, ReplicaState::kReady, 3}, {3, ReplicaState::kReady, 902}}), kNow + 15s);
  EXPECT_EQ(output.total(), 12U) << "replica 2 has started again and generated 3";
}

}  // namespace
}  // namespace penstock::controller
