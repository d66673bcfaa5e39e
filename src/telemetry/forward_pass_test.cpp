#include "telemetry/forward_pass.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "telemetry/golden_messages_testing.h"
#include "telemetry/msgpack.h"

namespace penstock::telemetry {
namespace {

core::Instant at_s(double seconds) { return core::kStart + core::from_seconds(seconds); }

ForwardPassMetrics decode_step(std::uint64_t counter, std::uint32_t sequences = 4, std::uint64_t context = 4000) {
  ForwardPassMetrics message;
  message.counter_id = counter;
  message.wall_time = 0.01;
  message.scheduled_requests.num_decode_requests = sequences;
  message.scheduled_requests.sum_decode_kv_tokens = context;
  return message;
}

ForwardPassMetrics prefill_step(std::uint64_t counter) {
  ForwardPassMetrics message = decode_step(counter);
  message.wall_time = 0.05;
  message.scheduled_requests.num_prefill_requests = 2;
  message.scheduled_requests.sum_prefill_tokens = 600;
  message.scheduled_requests.sum_prefill_kv_tokens = 100;
  message.queued_requests.num_prefill_requests = 3;
  message.queued_requests.sum_prefill_tokens = 900;
  message.queued_requests.num_decode_requests = 1;
  message.queued_requests.sum_decode_kv_tokens = 70;
  return message;
}

TEST(ForwardPass, ReadsAndWritesTheBytesOfDynamosOwnClass) {
  const auto message = decode_forward_pass(from_hex(kForwardPass));
  ASSERT_TRUE(message) << message.error().message();
  EXPECT_EQ(message->version, 1U);
  EXPECT_EQ(message->worker_id, "7f3a");
  EXPECT_EQ(message->dp_rank, 1U);
  EXPECT_EQ(message->counter_id, 300U);
  EXPECT_EQ(message->wall_time, 0.0125);
  EXPECT_EQ(message->scheduled_requests.num_prefill_requests, 2U);
  EXPECT_EQ(message->scheduled_requests.sum_prefill_tokens, 70000U);
  EXPECT_EQ(message->scheduled_requests.var_prefill_length, 2.25);
  EXPECT_EQ(message->scheduled_requests.sum_prefill_kv_tokens, 512U);
  EXPECT_EQ(message->scheduled_requests.num_decode_requests, 31U);
  EXPECT_EQ(message->scheduled_requests.sum_decode_kv_tokens, 45000U);
  EXPECT_EQ(message->queued_requests.num_prefill_requests, 3U);
  EXPECT_EQ(message->queued_requests.sum_decode_kv_tokens, 1200U);
  EXPECT_FALSE(message->kv_used_tokens);
  EXPECT_FALSE(message->is_heartbeat());
  EXPECT_EQ(encode(*message), from_hex(kForwardPass));
}

TEST(ForwardPass, DetectsAHeartbeat) {
  const auto message = decode_forward_pass(from_hex(kHeartbeat));
  ASSERT_TRUE(message) << message.error().message();
  EXPECT_TRUE(message->is_heartbeat());
  EXPECT_EQ(encode(*message), from_hex(kHeartbeat));
}

TEST(ForwardPass, KeepsWhatOurEnginesAdd) {
  ForwardPassMetrics message = decode_step(5);
  message.kv_used_tokens = 1234;
  message.kv_capacity_tokens = std::uint64_t{1} << 40;
  const auto read = decode_forward_pass(encode(message));
  ASSERT_TRUE(read) << read.error().message();
  EXPECT_EQ(read->kv_used_tokens, 1234U);
  EXPECT_EQ(read->kv_capacity_tokens, std::uint64_t{1} << 40);
}

// The golden message with one more pair at its end.
std::string with_pair(std::string_view key, std::string_view value_hex) {
  std::string bytes = from_hex(kForwardPass);
  ++bytes[0];
  MsgpackWriter(bytes).text(key);
  return bytes + from_hex(value_hex);
}

TEST(ForwardPass, SkipsUnknownKeys) {
  EXPECT_TRUE(decode_forward_pass(with_pair("spec_decode", "8201c291a3616263c0")));
}

TEST(ForwardPass, AnUnknownVersionIsRejectedWithTheRemedy) {
  const auto newer = decode_forward_pass(with_pair("version", "09"));
  ASSERT_FALSE(newer);
  EXPECT_NE(newer.error().what.find("version: is 9, but only 1 is known"), std::string::npos) << newer.error().what;
  EXPECT_FALSE(newer.error().hint.empty());
}

TEST(ForwardPass, NamesTheKeyThatIsWrong) {
  struct Case {
    std::string_view key, value, error;
  };
  const Case cases[] = {
      {"version", "00", "version: must be an integer from 1"},
      {"version", "a131", "version: must be an integer"},
      {"dp_rank", "ff", "dp_rank: must be an integer from 0"},
      {"worker_id", "01", "worker_id: must be a text"},
      {"worker_id", "a10a", "worker_id: must be printable"},
      {"wall_time", "cb7ff8000000000000", "wall_time: must be a number from 0 to 86400"},  // NaN
      {"wall_time", "ff", "wall_time: must be a number"},
      {"counter_id", "cb3ff0000000000000", "counter_id: must be an integer"},
      {"kv_used_tokens", "cfffffffffffffffff", "kv_used_tokens: must be an integer from 0"},
      {"scheduled_requests", "90", "scheduled_requests: must be a map"},
      {"queued_requests", "80", "queued_requests.num_prefill_requests: is missing"},
      {"queued_requests", "81b36e756d5f6465636f64655f7265717565737473ce00989681",
       "queued_requests.num_decode_requests: must be an integer from 0 to 10000000"},
      {"queued_requests", "81b27661725f70726566696c6c5f6c656e677468cb7ff0000000000000",
       "queued_requests.var_prefill_length: must be a finite number"},
  };
  for (const Case& one : cases) {
    const auto read = decode_forward_pass(with_pair(one.key, one.value));
    ASSERT_FALSE(read) << one.key;
    EXPECT_NE(read.error().message().find(one.error), std::string::npos) << read.error().message();
  }
}

TEST(ForwardPass, RejectsTruncatedAndTrailingBytes) {
  const std::string bytes = from_hex(kForwardPass);
  for (std::size_t size = 0; size < bytes.size(); ++size)
    EXPECT_FALSE(decode_forward_pass(bytes.substr(0, size))) << size;
  EXPECT_FALSE(decode_forward_pass(bytes + '\0'));
  EXPECT_FALSE(decode_forward_pass("\x80"));
  EXPECT_FALSE(decode_forward_pass(std::string(kForwardPassBytesMax + 1, '\x80')));
  EXPECT_FALSE(decode_forward_pass(std::string(kForwardPassBytesMax, '\x91')));
}

TEST(ForwardPassTotals, AddsUpIterationsByKind) {
  ForwardPassTotals totals;
  totals.add(decode_step(0), at_s(1));
  totals.add(decode_step(1, 4, 4004), at_s(2));
  totals.add(prefill_step(2), at_s(3));
  const core::IterationTotals& sums = totals.iterations();
  EXPECT_EQ(sums.decode.steps, 2U);
  EXPECT_EQ(sums.decode.busy, std::chrono::milliseconds{20});
  EXPECT_EQ(sums.decode.decode_sequences, 8U);
  EXPECT_EQ(sums.decode.decode_context_tokens, 8004U);
  EXPECT_EQ(sums.decode.active_kv_tokens, 8004U);
  EXPECT_EQ(sums.prefill.steps, 1U);
  EXPECT_EQ(sums.prefill.busy, std::chrono::milliseconds{50});
  EXPECT_EQ(sums.prefill.decode_sequences, 4U);
  EXPECT_EQ(sums.prefill.active_kv_tokens, 4700U);
  EXPECT_EQ(sums.prefill_requests, 2U);
  EXPECT_EQ(sums.prefill_new_tokens, 600U);
  EXPECT_EQ(sums.prefill_new_tokens_squared, 360000.0);
  EXPECT_EQ(sums.prefill_context_tokens, 100U);
  EXPECT_DOUBLE_EQ(sums.prefill_attention_pairs, 600 * (50 + 301 / 2.0));
  EXPECT_EQ(totals.messages(), 3U);
  EXPECT_EQ(totals.lost(), 0U);
}

TEST(ForwardPassTotals, CountsGapsAsLostMessages) {
  ForwardPassTotals totals;
  totals.add(decode_step(500), at_s(1));  // the first message shows no loss
  EXPECT_EQ(totals.lost(), 0U);
  totals.add(decode_step(503), at_s(2));
  EXPECT_EQ(totals.lost(), 2U);
  EXPECT_EQ(totals.iterations().steps(), 2U);
}

TEST(ForwardPassTotals, RestartsWithTheEngineAndIgnoresRepeats) {
  ForwardPassTotals totals;
  totals.add(decode_step(7), at_s(1));
  totals.add(decode_step(7), at_s(2));
  EXPECT_EQ(totals.iterations().steps(), 1U);
  EXPECT_EQ(totals.received_at(), at_s(1));
  totals.add(prefill_step(1), at_s(3));
  EXPECT_EQ(totals.restarts(), 1U);
  EXPECT_EQ(totals.lost(), 1U);
  EXPECT_EQ(totals.iterations().decode.steps, 0U);
  EXPECT_EQ(totals.iterations().prefill.steps, 1U);
}

TEST(ForwardPassTotals, CountsNoIterationForHeartbeatsOrWithoutATime) {
  ForwardPassTotals totals;
  ForwardPassMetrics heartbeat;
  totals.add(heartbeat, at_s(1));
  ForwardPassMetrics untimed = decode_step(1);
  untimed.wall_time = 0.0;
  totals.add(untimed, at_s(2));
  EXPECT_EQ(totals.iterations().steps(), 0U);
  EXPECT_EQ(totals.messages(), 2U);
  EXPECT_EQ(totals.received_at(), at_s(2));
  EXPECT_EQ(totals.last().scheduled_requests.num_decode_requests, 4U);
}

TEST(ForwardPassTotals, PutsTheRanksOfAReplicaOverItsScrape) {
  std::vector<ForwardPassTotals> ranks(3);
  ranks[0].add(decode_step(0), at_s(5));
  ranks[1].add(prefill_step(0), at_s(4));
  EngineSample sample;
  sample.sampled_at = at_s(4.5);
  sample.kv_used_tokens = 10;
  sample.kv_capacity_tokens = 100;
  sample.generation_tokens_total = 77;
  ASSERT_TRUE(apply_forward_pass(ranks, sample));
  EXPECT_EQ(sample.sampled_at, at_s(4));
  EXPECT_EQ(sample.queued_requests, 4U);
  EXPECT_EQ(sample.running_requests, 10U);
  EXPECT_EQ(sample.queued_prefill_tokens, 900U);
  EXPECT_EQ(sample.queued_kv_tokens, 70U);
  EXPECT_EQ(sample.inflight_prefill_tokens, 600U);
  EXPECT_EQ(sample.scheduled_kv_tokens, 8000U);
  EXPECT_EQ(sample.kv_used_tokens, 10U);
  EXPECT_EQ(sample.generation_tokens_total, 77U);
  EXPECT_EQ(sample.iterations.steps(), 2U);
}

TEST(ForwardPassTotals, TheSampleIsAsOldAsItsOlderSource) {
  std::vector<ForwardPassTotals> ranks(1);
  ranks[0].add(decode_step(0), at_s(5));
  EngineSample older, newer;
  older.sampled_at = at_s(3);
  newer.sampled_at = at_s(7);
  ASSERT_TRUE(apply_forward_pass(ranks, older));
  ASSERT_TRUE(apply_forward_pass(ranks, newer));
  EXPECT_EQ(older.sampled_at, at_s(3));
  EXPECT_EQ(newer.sampled_at, at_s(5));
}

TEST(ForwardPassTotals, UsesTheCacheFiguresIfReported) {
  std::vector<ForwardPassTotals> ranks(1);
  ForwardPassMetrics message = decode_step(0);
  message.kv_used_tokens = 3000;
  message.kv_capacity_tokens = 10000;
  ranks[0].add(message, at_s(5));
  EngineSample sample;
  ASSERT_TRUE(apply_forward_pass(ranks, sample));
  EXPECT_EQ(sample.sampled_at, at_s(5));
  EXPECT_EQ(sample.kv_used_tokens, 3000U);
  EXPECT_EQ(sample.kv_capacity_tokens, 10000U);
  EXPECT_EQ(sample.iterations.decode.active_kv_tokens, 3000U);
}

TEST(ForwardPassTotals, LeavesTheSampleUnchangedWithoutMessages) {
  const std::vector<ForwardPassTotals> ranks(2);
  EngineSample sample;
  sample.queued_requests = 9;
  EXPECT_FALSE(apply_forward_pass(ranks, sample));
  EXPECT_EQ(sample.queued_requests, 9U);
}

}  // namespace
}  // namespace penstock::telemetry
