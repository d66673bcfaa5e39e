#include "connect/observation_line.h"

#include <gtest/gtest.h>

#include <string>

namespace penstock::connect {
namespace {

using namespace std::chrono_literals;

std::string line(const std::string& pool, const std::string& requests = "[]") {
  return R"({"at_s": 60, "pools": [{)" + pool + R"(}], "requests": )" + requests + "}";
}

TEST(ObservationLine, FewFieldsAreEnough) {
  const auto read = read_observation(R"({"at_s": 60.5, "pools": [{"ready": 2}], "requests": []})");
  ASSERT_TRUE(read) << read.error().message();
  EXPECT_EQ(read->at, core::kStart + 60500ms);
  ASSERT_EQ(read->pools.size(), 1U);
  EXPECT_EQ(read->pools[0].name, "");
  EXPECT_EQ(read->pools[0].ready, 2U);
  EXPECT_EQ(read->pools[0].target, std::nullopt);
  EXPECT_TRUE(read->pools[0].replicas.empty());
  EXPECT_TRUE(read->requests && read->requests->empty());
}

TEST(ObservationLine, AMissingListOfRequestsDiffersFromAnEmptyOne) {
  const auto read = read_observation(R"({"at_s": 60, "pools": [{"ready": 2}]})");
  ASSERT_TRUE(read);
  EXPECT_EQ(read->requests, std::nullopt);
}

TEST(ObservationLine, ReadsReplicasAndCountsThem) {
  const auto read = read_observation(line(R"("replicas": [
    {"id": "a", "since_s": 10, "running_requests": 3, "queued_requests": 1, "queued_prompt_tokens": 900,
     "oldest_queued_s": 0.25, "kv_used_tokens": 4000, "kv_capacity_tokens": 10000, "sampled_at_s": 59},
    {"id": 7, "state": "starting"}, {"id": "c", "state": "draining", "running_requests": 0, "queued_requests": 0}])"));
  ASSERT_TRUE(read) << read.error().message();
  const ObservedPool& pool = read->pools[0];
  EXPECT_EQ(pool.ready, 1U);
  EXPECT_EQ(pool.starting, 1U);
  EXPECT_EQ(pool.draining, 1U);
  ASSERT_TRUE(pool.replicas[0].sample);
  EXPECT_EQ(pool.replicas[0].since, core::kStart + 10s);
  EXPECT_EQ(pool.replicas[0].sample->sampled_at, core::kStart + 59s);
  EXPECT_EQ(pool.replicas[0].sample->queued_prefill_tokens, 900U);
  EXPECT_EQ(pool.replicas[0].sample->oldest_queued_age, core::Duration{250ms});
  EXPECT_DOUBLE_EQ(*pool.replicas[0].sample->kv_usage(), 0.4);
  EXPECT_EQ(pool.replicas[1].id, "7");
  EXPECT_FALSE(pool.replicas[1].sample) << "it reports nothing";
  EXPECT_EQ(pool.replicas[2].sample->kv_usage(), std::nullopt) << "a missing figure is not zero";
}

TEST(ObservationLine, ReadsRequestsAndDerivesTheGapBetweenTokens) {
  const auto read = read_observation(line(R"("ready": 1)", R"([
    {"id": "r", "arrival_s": 50, "prompt_tokens": 800, "output_tokens": 101, "ttft_ms": 500, "ended_s": 52.5,
     "tenant": "shop", "class": "batch", "model": "m", "blocks": [5, 6]},
    {"arrival_s": 51, "prompt_tokens": 10, "ended_s": 52, "outcome": "failed"},
    {"arrival_s": 51, "prompt_tokens": 10, "streamed": false, "output_tokens": 5, "ended_s": 53}])"));
  ASSERT_TRUE(read) << read.error().message();
  const auto& requests = *read->requests;
  ASSERT_EQ(requests.size(), 3U);
  EXPECT_EQ(requests[0].arrival, core::kStart + 50s);
  EXPECT_DOUBLE_EQ(*requests[0].itl_ms, 20.0);
  EXPECT_EQ(requests[0].blocks, (std::vector<std::uint64_t>{5, 6}));
  EXPECT_EQ(requests[1].end, signals::RequestEnd::kFailed);
  EXPECT_EQ(requests[2].itl_ms, std::nullopt);
  EXPECT_FALSE(requests[2].streamed);
}

TEST(ObservationLine, TheTtftOfADeferredRequestBeginsWithTheEndOfItsWait) {
  const auto read = read_observation(line(R"("ready": 1)", R"([
    {"arrival_s": 10, "prompt_tokens": 9, "completion_window_s": 600, "deferred_s": 30, "ttft_ms": 500,
     "output_tokens": 101, "ended_s": 42.5},
    {"arrival_s": 50, "prompt_tokens": 9, "completion_window_s": 600}])"));
  ASSERT_TRUE(read) << read.error().message();
  const auto& requests = *read->requests;
  EXPECT_DOUBLE_EQ(requests[0].completion_window_s, 600.0);
  EXPECT_DOUBLE_EQ(requests[0].deferred_s, 30.0);
  EXPECT_DOUBLE_EQ(*requests[0].itl_ms, 20.0) << "2 s after the first token, which came 30.5 s after the arrival";
  EXPECT_DOUBLE_EQ(requests[1].completion_window_s, 600.0);
  EXPECT_DOUBLE_EQ(requests[1].deferred_s, 0.0);
}

TEST(ObservationLine, AMissingPercentileTakesTheNextLowerFigure) {
  const auto read = read_observation(line(R"("ready": 1, "last_minute": {"arrivals": 60, "prompt_tokens": 6000,
    "output_tokens": 600, "completed": 50, "ttft_ms": {"count": 50, "mean": 300, "p90": 700},
    "itl_ms": {"count": 50, "mean": 90, "p90": 40}})"));
  ASSERT_TRUE(read) << read.error().message();
  const signals::TrafficWindow& window = *read->pools[0].last_minute;
  EXPECT_EQ(window.length, core::kMinute);
  EXPECT_EQ(window.arrivals, 60U);
  EXPECT_DOUBLE_EQ(window.ttft.p50_ms, 300.0);
  EXPECT_DOUBLE_EQ(window.ttft.p99_ms, 700.0);
  EXPECT_DOUBLE_EQ(window.itl.p99_ms, 40.0) << "few long gaps raise the mean above the percentiles";
}

TEST(ObservationLine, AWholeNumberMayHaveAZeroFraction) {
  const auto read =
      read_observation(line(R"("replicas": [{"id": 7.0, "running_requests": 3.0, "queued_requests": 0.0}])",
                            R"([{"id": 1.0, "arrival_s": 9, "prompt_tokens": 8e2, "blocks": [5.0, 6]}])"));
  ASSERT_TRUE(read) << read.error().message();
  const ObservedPool& pool = read->pools[0];
  EXPECT_EQ(pool.replicas[0].id, "7");
  EXPECT_EQ(pool.replicas[0].sample->running_requests, 3U);
  EXPECT_EQ((*read->requests)[0].id, "1");
  EXPECT_EQ((*read->requests)[0].prompt_tokens, 800U);
  EXPECT_EQ((*read->requests)[0].blocks, (std::vector<std::uint64_t>{5, 6}));
  EXPECT_EQ(read_observation(line(R"("ready": 2.0)"))->pools[0].ready, 2U);
}

struct Bad {
  std::string text, says;
};

TEST(ObservationLine, BadLinesAreErrorsThatNameTheField) {
  const std::string replica = R"("running_requests": 0, "queued_requests": 0)";
  const Bad bad[] = {
      {"", "observation: invalid JSON at byte 1"},
      {"[]", "observation: must be an object, is array"},
      {"{\"at_s\": NaN}", "observation: invalid JSON at byte "},
      {"{\"at_s\": Infinity}", "observation: invalid JSON at byte "},
      {R"({"at_s": 1e999})", "observation: invalid JSON: a number is out of range"},
      {R"({"at_s": 1, "at_s": 2})", "observation: has \"at_s\" twice"},
      {R"({"pools": []})", "observation: at_s: is missing"},
      {R"({"at_s": -1, "pools": [{"ready": 1}]})", "observation: at_s: must be 0 to "},
      {R"({"at_s": 1e10, "pools": [{"ready": 1}]})", "observation: at_s: must be 0 to "},
      {R"({"at_s": "now", "pools": [{"ready": 1}]})", "observation: at_s: must be a number, is string"},
      {R"({"at_s": 1, "pools": []})", "observation: pools: must not be empty"},
      {R"({"at_s": 1, "pools": [{}]})", "observation: pools[0].ready: is missing"},
      {R"({"at_s": 1, "pools": [7]})", "observation: pools[0]: must be an object"},
      {R"({"at_s": 1, "pools": [{"ready": 1}], "requets": []})",
       "observation: 'requets': unknown key; did you mean requests?"},
      {line(R"("ready": -1)"), "observation: pools[0].ready: must be 0 to 10000, is -1"},
      {line(R"("ready": 1.5)"), "observation: pools[0].ready: must be a whole number from 0 to 10000, is 1.5"},
      {line(R"("ready": 1e9)"), "observation: pools[0].ready: must be 0 to 10000, is 1000000000.0"},
      {line(R"("ready": 1e300)"), "observation: pools[0].ready: must be a whole number from 0 to 10000, is 1e+300"},
      {line(R"("ready": "1")"), "observation: pools[0].ready: must be a whole number from 0 to 10000, is string"},
      {R"({"at_s": 1, "pools": [{"ready": 1}], "requests": [{"id": "a", "arrival_s": 0, "prompt_tokens": 1},
          {"id": "b", "arrival_s": 0, "prompt_tokens": 1}, {"id": "a", "arrival_s": 0, "prompt_tokens": 1}]})",
       "observation: requests[2].id: is in the observation twice: 'a'"},
      {R"({"at_s": 9, "pools": [{"ready": 1}], "requests": [{"id": "a", "arrival_s": 0, "prompt_tokens": 1},
          {"id": "a", "arrival_s": 0, "prompt_tokens": 1, "ended_s": 5, "output_tokens": 1},
          {"id": "a", "arrival_s": 0, "prompt_tokens": 1, "ended_s": 5, "output_tokens": 1}]})",
       "observation: requests[2].id: is in the observation twice: 'a'"},
      {line(R"("ready": 99999999999)"), "observation: pools[0].ready: must be 0 to 10000"},
      {line(R"("ready": 2, "replicas": [{"id": 1}])"),
       "observation: pools[0].ready: must be the number in replicas (1), is 2"},
      {line(R"("replicas": [{"id": 1}, {"id": "1"}])"), "observation: pools[0].replicas[1].id: is in the list twice"},
      {line(R"("replicas": [{"id": ""}])"), "observation: pools[0].replicas[0].id: must not be empty"},
      {line(R"("replicas": [{"id": 1, "state": "gone"}])"), "pools[0].replicas[0].state: must be one of starting"},
      {line(R"("replicas": [{"id": 1, "kv_usage": 0.5}])"), "pools[0].replicas[0].running_requests: is missing"},
      {line(R"("replicas": [{"id": 1, "kv_usage": 1.5, )" + replica + "}]"), "kv_usage: must be 0 to 1, is 1.5"},
      {line(R"("replicas": [{"id": 1, "kv_used_tokens": 9, "kv_capacity_tokens": 5, )" + replica + "}]"),
       "kv_used_tokens: must be at most kv_capacity_tokens (5), is 9"},
      {line(R"("replicas": [{"id": 1, "sampled_at_s": 61, )" + replica + "}]"),
       "sampled_at_s: must not be later than at_s"},
      {line(R"("ready": 1, "last_minute": {"arrivals": 1, "prompt_tokens": 1, "output_tokens": 1,
               "ttft_ms": {"count": 1, "mean": 5, "p50": 9, "p90": 3}})"),
       "observation: pools[0].last_minute.ttft_ms.p90: must be at least p50 (9), is 3"},
      {line(R"("ready": 1, "last_minute": {"arrivals": 1, "prompt_tokens": 1, "output_tokens": 1,
               "itl_ms": {"count": 1, "mean": 5, "p50": 9.5, "p99": 3}})"),
       "observation: pools[0].last_minute.itl_ms.p99: must be at least p50 (9.5), is 3"},
      {line(R"("ready": 1, "last_minute": {"arrivals": 1})"), "pools[0].last_minute.prompt_tokens: is missing"},
      {line(R"("ready": 1)", R"([{"arrival_s": 61, "prompt_tokens": 1}])"),
       "requests[0].arrival_s: must not be later than at_s"},
      {line(R"("ready": 1)", R"([{"arrival_s": 1, "prompt_tokens": 0}])"), "prompt_tokens: must be 1 to 10000000"},
      {line(R"("ready": 1)", R"([{"arrival_s": 1, "prompt_tokens": 5, "output_tokens": 5}])"),
       "requests[0].output_tokens: is of a request that has ended; give ended_s, too"},
      {line(R"("ready": 1)", R"([{"arrival_s": 9, "prompt_tokens": 5, "ended_s": 8, "output_tokens": 5}])"),
       "requests[0].ended_s: must not be earlier than arrival_s"},
      {line(R"("ready": 1)", R"([{"arrival_s": 9, "prompt_tokens": 5, "ended_s": 10}])"),
       "requests[0].output_tokens: is missing"},
      {line(R"("ready": 1)", R"([{"arrival_s": 9, "prompt_tokens": 5, "ttft_ms": 51002}])"),
       "requests[0].ttft_ms: must not be longer than from arrival_s to at_s"},
      {line(R"("ready": 1)", R"([{"arrival_s": 9, "prompt_tokens": 5, "ttft_ms": -1}])"), "ttft_ms: must be 0 to "},
      {line(R"("ready": 1)", R"([{"arrival_s": 9, "prompt_tokens": 5, "completion_window_s": -1}])"),
       "requests[0].completion_window_s: must be 0 to 86400, is -1"},
      {line(R"("ready": 1)", R"([{"arrival_s": 9, "prompt_tokens": 5, "deferred_s": 3}])"),
       "requests[0].deferred_s: is of a request that may wait for spare capacity; give completion_window_s, too"},
      {line(R"("ready": 1)", R"([{"arrival_s": 9, "prompt_tokens": 5, "completion_window_s": 60, "deferred_s": 51,
                                  "ttft_ms": 500}])"),
       "requests[0].ttft_ms: must not be longer than from arrival_s to at_s"},
      {line(R"("ready": 1)", R"([{"arrival_s": 9, "prompt_tokens": 5, "blocks": [-1]}])"),
       "requests[0].blocks: must be whole numbers from 0"},
      {line(R"("ready": 1)", R"([{"arrival_s": 9, "prompt_tokens": 5, "ended_s": 10, "outcome": "lost"}])"),
       "requests[0].outcome: must be one of completed, failed, cancelled, is 'lost'"}};
  for (const Bad& each : bad) {
    const auto read = read_observation(each.text);
    ASSERT_FALSE(read) << each.text;
    EXPECT_NE(read.error().message().find(each.says), std::string::npos)
        << each.text << "\n  " << read.error().message();
  }
}

}  // namespace
}  // namespace penstock::connect
