#include "controller/engine_traffic.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <numeric>
#include <sstream>

#include "core/random.h"
#include "core/source_root_testing.h"
#include "telemetry/exposition.h"

namespace penstock::controller {
namespace {

using std::chrono::seconds;
using Kind = TrafficItem::Kind;

// What an engine has counted.
struct Counted {
  std::uint64_t queued = 0, running = 0, completed = 0, failed = 0, first_tokens = 0;
  std::uint64_t prompt_tokens = 0, generation_tokens = 0, asked = 0, hits = 0;

  [[nodiscard]] telemetry::EngineScrape scrape() const {
    telemetry::EngineScrape made;
    made.model = "llama";
    made.queued_requests = queued;
    made.running_requests = running;
    made.completed_total = completed;
    made.failed_total = failed;
    made.prompt_tokens_total = prompt_tokens;
    made.generation_tokens_total = generation_tokens;
    made.prefix_query_tokens_total = asked;
    made.prefix_hit_tokens_total = hits;
    made.ttft_s = telemetry::Histogram{telemetry::ttft_bounds_s()};
    made.ttft_s->add(0.2, first_tokens);
    made.itl_s = telemetry::Histogram{telemetry::itl_bounds_s()};
    made.itl_s->add(0.02, generation_tokens);
    return made;
  }
};

core::Instant at(int second) { return core::kStart + seconds{1000 + second}; }

std::map<Kind, std::size_t> counts_of(const std::vector<TrafficItem>& items) {
  std::map<Kind, std::size_t> counts;
  for (const TrafficItem& item : items) ++counts[item.kind];
  return counts;
}

std::vector<TrafficItem> of_kind(const std::vector<TrafficItem>& items, Kind kind) {
  std::vector<TrafficItem> found;
  std::copy_if(items.begin(), items.end(), std::back_inserter(found),
               [&](const auto& item) { return item.kind == kind; });
  return found;
}

TEST(EngineTraffic, RequestsArriveAndEndAsTheCountersSay) {
  EngineTraffic traffic;
  traffic.observe("a", Counted{.completed = 50, .first_tokens = 50, .prompt_tokens = 50'000}.scrape(), at(0));
  EXPECT_TRUE(traffic.take().empty());
  // Seven arrive: two wait, three run, and two have ended.
  const Counted later{2, 3, 52, 0, 55, 55'000, 400};
  traffic.observe("a", later.scrape(), at(1));
  const std::vector<TrafficItem> items = traffic.take();
  EXPECT_EQ(counts_of(items),
            (std::map<Kind, std::size_t>{{Kind::kArrival, 7}, {Kind::kFirstToken, 5}, {Kind::kEnd, 2}}));
  for (const TrafficItem& item : items) {
    EXPECT_GE(item.at_s, 1000.0);
    EXPECT_LE(item.at_s, 1001.0);
  }
  EXPECT_TRUE(std::is_sorted(items.begin(), items.end(), [](const auto& a, const auto& b) { return a.at_s < b.at_s; }));
  for (const TrafficItem& arrival : of_kind(items, Kind::kArrival)) {
    EXPECT_EQ(arrival.input_tokens, 1000U);
    EXPECT_EQ(arrival.model, "llama");
    EXPECT_TRUE(arrival.streamed);
  }
  for (const TrafficItem& first : of_kind(items, Kind::kFirstToken)) EXPECT_NEAR(first.ttft_ms, 200.0, 60.0);
  for (const TrafficItem& end : of_kind(items, Kind::kEnd)) {
    EXPECT_EQ(end.outcome, "completed");
    EXPECT_EQ(end.replica, "a");
    EXPECT_EQ(end.prompt_tokens, 1000U);
    EXPECT_NEAR(end.itl_ms, 20.0, 1e-6);
  }
  // The rest ends, one of them by its client.
  traffic.observe("a", Counted{0, 0, 56, 1, 57, 57'000, 900}.scrape(), at(2));
  const auto ends = of_kind(traffic.take(), Kind::kEnd);
  ASSERT_EQ(ends.size(), 5U);
  EXPECT_EQ(std::count_if(ends.begin(), ends.end(), [](const auto& end) { return end.outcome == "cancelled"; }), 1);
}

TEST(EngineTraffic, LengthsAreThoseOfTheHistograms) {
  const std::vector<double> bounds{1, 10, 100, 1000, 10'000};
  const auto with_lengths = [&](std::uint64_t requests) {
    telemetry::EngineScrape made = Counted{.completed = requests, .first_tokens = requests}.scrape();
    made.prompt_length = telemetry::Histogram{bounds};
    made.prompt_length->add(50, requests / 2);
    made.prompt_length->add(4000, requests - requests / 2);
    made.output_length = telemetry::Histogram{bounds};
    made.output_length->add(300, requests);
    return made;
  };
  EngineTraffic traffic;
  traffic.observe("a", with_lengths(100), at(0));
  traffic.observe("a", with_lengths(1100), at(1));
  const std::vector<TrafficItem> items = traffic.take();
  double prompts = 0.0, answers = 0.0, shorter = 0.0;
  for (const TrafficItem& item : items) {
    if (item.kind == Kind::kArrival) prompts += item.input_tokens;
    if (item.kind == Kind::kArrival && item.input_tokens <= 100) ++shorter;
    if (item.kind == Kind::kEnd) answers += item.output_tokens;
  }
  EXPECT_NEAR(prompts / 1000, 2025.0, 60.0);
  EXPECT_NEAR(answers / 1000, 300.0, 10.0);
  EXPECT_NEAR(shorter / 1000, 0.5, 0.02);
}

TEST(EngineTraffic, AnswersHaveTheLengthsOfTheirInterval) {
  const auto with_answers = [](std::uint64_t of_600, std::uint64_t of_16) {
    const std::uint64_t requests = of_600 + of_16;
    telemetry::EngineScrape made =
        Counted{.completed = requests, .first_tokens = requests, .prompt_tokens = 100 * requests}.scrape();
    made.output_length = telemetry::Histogram{std::vector<double>{1, 10, 100, 1000}};
    made.output_length->add(600, of_600);
    made.output_length->add(16, of_16);
    return made;
  };
  EngineTraffic traffic;
  traffic.observe("a", with_answers(40, 0), at(0));
  traffic.observe("a", with_answers(40, 2), at(1));
  traffic.observe("a", with_answers(41, 2), at(2));
  const auto ends = of_kind(traffic.take(), Kind::kEnd);
  ASSERT_EQ(ends.size(), 3U);
  EXPECT_NEAR(ends[0].output_tokens + ends[1].output_tokens, 32, 16);
  EXPECT_NEAR(ends[2].output_tokens, 600, 300);
}

TEST(EngineTraffic, WhatWasOpenAtFirstIsNeverReported) {
  EngineTraffic traffic;
  traffic.observe("a", Counted{2, 3, 50, 0, 53, 53'000}.scrape(), at(0));
  traffic.observe("a", Counted{0, 1, 55, 0, 56, 56'000}.scrape(), at(1));
  const std::vector<TrafficItem> items = traffic.take();
  EXPECT_EQ(counts_of(items), (std::map<Kind, std::size_t>{{Kind::kArrival, 1}, {Kind::kFirstToken, 1}}));
}

TEST(EngineTraffic, ARestartAndALongGapGiveNoTraffic) {
  EngineTraffic traffic;
  traffic.observe("a", Counted{.completed = 50, .first_tokens = 50, .prompt_tokens = 50'000}.scrape(), at(0));
  traffic.observe("a", Counted{0, 4, 50, 0, 54, 54'000}.scrape(), at(1));
  EXPECT_EQ(counts_of(traffic.take())[Kind::kArrival], 4U);
  traffic.observe("a", Counted{.completed = 3, .first_tokens = 3, .prompt_tokens = 3000}.scrape(), at(2));
  const auto ends = traffic.take();
  EXPECT_EQ(counts_of(ends), (std::map<Kind, std::size_t>{{Kind::kEnd, 4}}));
  for (const TrafficItem& end : ends) EXPECT_EQ(end.outcome, "cancelled");
  traffic.observe("a", Counted{.completed = 900, .first_tokens = 900, .prompt_tokens = 900'000}.scrape(), at(90));
  EXPECT_TRUE(traffic.take().empty());
  traffic.observe("a", Counted{.completed = 901, .first_tokens = 901, .prompt_tokens = 901'000}.scrape(), at(91));
  EXPECT_EQ(traffic.take().size(), 3U);
}

TEST(EngineTraffic, PromptsHaveTheCachedShareInCommon) {
  EngineTraffic traffic;
  traffic.observe("a", Counted{.completed = 50, .first_tokens = 50, .prompt_tokens = 200'000}.scrape(), at(0));
  traffic.observe("a", Counted{0, 0, 60, 0, 60, 240'000, 100, 40'000, 20'000}.scrape(), at(1));
  const std::vector<TrafficItem> items = traffic.take();
  const auto arrivals = of_kind(items, Kind::kArrival);
  ASSERT_EQ(arrivals.size(), 10U);
  for (const TrafficItem& arrival : arrivals) {
    EXPECT_EQ(arrival.input_tokens, 4000U);
    EXPECT_EQ(arrival.keys.size(), 7U);  // Half of the prompt, in whole blocks of 256 tokens.
    EXPECT_EQ(arrival.keys, arrivals.front().keys);
  }
  for (const TrafficItem& first : of_kind(items, Kind::kFirstToken)) EXPECT_EQ(first.cached_tokens, 2000U);
}

TEST(EngineTraffic, WithoutTheNumbersOfRequestsThereIsNoTraffic) {
  EngineTraffic traffic;
  telemetry::EngineScrape first = Counted{.completed = 50, .first_tokens = 50, .prompt_tokens = 50'000}.scrape(),
                          later = first;
  first.completed_total.reset();
  later.completed_total.reset();
  later.running_requests = 5;
  traffic.observe("a", first, at(0));
  traffic.observe("a", later, at(1));
  EXPECT_TRUE(traffic.take().empty());
}

TEST(EngineTraffic, AnEngineThatLeavesEndsWhatIsOpenThere) {
  EngineTraffic traffic;
  traffic.observe("a", Counted{.completed = 50, .first_tokens = 50, .prompt_tokens = 50'000}.scrape(), at(0));
  traffic.observe("a", Counted{0, 4, 50, 0, 54, 54'000}.scrape(), at(1));
  static_cast<void>(traffic.take());
  traffic.forget("a", at(2));
  EXPECT_EQ(counts_of(traffic.take()), (std::map<Kind, std::size_t>{{Kind::kEnd, 4}}));
}

TEST(EngineTraffic, EveryRequestArrivesOnceAndEndsOnce) {
  core::RandomStream random{7};
  EngineTraffic traffic;
  std::map<std::uint64_t, int> stage;  // 1: arrived, 2: answered, 3: ended.
  Counted counted{.completed = 40, .first_tokens = 40, .prompt_tokens = 40'000, .generation_tokens = 4000};
  for (int second = 0; second < 2000; ++second) {
    const std::uint64_t arrive = random.below(6), start = random.below(counted.queued + arrive + 1);
    counted.queued += arrive - start;
    counted.running += start;
    counted.first_tokens += start;
    counted.prompt_tokens += 1000 * start;
    const std::uint64_t end = random.below(counted.running + 1), failed = random.below(end + 1) / 4;
    counted.running -= end;
    counted.completed += end - failed;
    counted.failed += failed;
    counted.generation_tokens += 100 * end;
    if (random.below(100) == 0) counted = {.completed = 5, .first_tokens = 5, .prompt_tokens = 5000};
    traffic.observe("a", counted.scrape(), at(second));
    for (const TrafficItem& item : traffic.take()) {
      int& now = stage[item.request];
      const int next = item.kind == Kind::kArrival ? 1 : item.kind == Kind::kFirstToken ? 2 : 3;
      ASSERT_LT(now, next) << item.request;
      ASSERT_EQ(now == 0, next == 1) << item.request;
      ASSERT_TRUE(next != 1 || item.input_tokens > 0);
      now = next;
    }
  }
  traffic.forget("a", at(3000));
  for (const TrafficItem& item : traffic.take()) stage[item.request] = 3;
  EXPECT_GT(stage.size(), 3000U);
  for (const auto& [request, now] : stage) ASSERT_EQ(now, 3) << request;
}

// A real server's page, and the same a second later with three more requests.
TEST(EngineTraffic, ReadsARealServer) {
  std::ifstream file{core::testing::source_root() / "tests/engines/captured/vllm.txt"};
  std::stringstream content;
  content << file.rdbuf();
  const std::string text = content.str();
  const auto exposition = telemetry::parse_exposition(text, "vllm.txt");
  ASSERT_TRUE(exposition.has_value());
  telemetry::EngineScrape before = telemetry::read_scrape(*exposition);
  before.queued_requests = before.running_requests = 0;
  ASSERT_TRUE(before.completed_total && before.ttft_s && before.prompt_length && before.output_length);
  ASSERT_EQ(before.prompt_length->count(), 9U);
  telemetry::EngineScrape after = before;
  *after.completed_total += 3;
  after.ttft_s->add(0.05, 3);
  EngineTraffic traffic;
  traffic.observe("a", before, at(0));
  traffic.observe("a", after, at(1));
  const std::vector<TrafficItem> items = traffic.take();
  EXPECT_EQ(counts_of(items),
            (std::map<Kind, std::size_t>{{Kind::kArrival, 3}, {Kind::kFirstToken, 3}, {Kind::kEnd, 3}}));
  // Its buckets are wide: between 5 and 500 tokens.
  const double mean = before.prompt_length->sum / 9.0;
  double sum = 0.0;
  for (const TrafficItem& arrival : of_kind(items, Kind::kArrival)) sum += arrival.input_tokens;
  EXPECT_NEAR(sum / 3.0, mean, 0.4 * mean);
}

}  // namespace
}  // namespace penstock::controller
