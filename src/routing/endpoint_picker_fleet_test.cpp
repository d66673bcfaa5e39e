// Closed-loop tests of the endpoint picker in front of a small fleet: first tokens and cache hits, compared with
// simpler rules.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "routing/fleet_testing.h"

namespace penstock::routing {
namespace {

using namespace std::chrono_literals;

enum class Rule { kPrice, kRoundRobin, kLeastLoaded };

// Replaces the picker's choice by the rule; the picker still accounts for every request.
void set_rule(TestFleet& fleet, EndpointPicker& picker, Rule rule) {
  if (rule == Rule::kPrice) return;
  fleet.choose = [&fleet, &picker, rule, turn = std::uint32_t{0}](const PickRequest& request,
                                                                  core::Instant now) mutable {
    const auto size = static_cast<std::uint32_t>(fleet.engines.size());
    const std::uint32_t start = turn++ % size;
    Selection selection;
    selection.slot = start;
    if (rule == Rule::kLeastLoaded)
      for (std::uint32_t i = 0; i < size; ++i) {
        const std::uint32_t slot = (start + i) % size;
        if (picker.load(slot, now).open_requests < picker.load(selection.slot, now).open_requests)
          selection.slot = slot;
      }
    selection.uncached_tokens = std::max(1U, request.input_tokens);
    return selection;
  };
}

std::vector<std::uint64_t> prompt(std::uint64_t family, std::uint32_t shared, std::uint32_t own, std::uint64_t number) {
  std::vector<std::uint64_t> keys;
  for (std::uint32_t i = 0; i < shared; ++i) keys.push_back(core::mix64((family + 1) << 20 | i));
  for (std::uint32_t i = 0; i < own; ++i) keys.push_back(core::mix64((number + 1) << 20 | i | std::uint64_t{1} << 62));
  return keys;
}

struct Outcome {
  std::vector<std::uint64_t> sent;
  double hit_rate = 0.0, mean_ttft_ms = 0.0;
};

// Runs kStreams concurrent streams of the same prompt, each restarted when it ends. They start one by one or all at
// once.
Outcome hot_prompt(std::uint32_t replicas, std::uint32_t keys, bool at_once) {
  constexpr std::uint32_t kStreams = 60;
  EndpointPicker picker{{}, core::RandomStream{1}};
  TestFleet fleet{replicas, picker};
  std::uint32_t ended = 0;
  fleet.ended = [&](const TestEngine::Request&) { ++ended; };
  const auto send = [&] {
    TestEngine::Request request;
    request.keys = prompt(0, keys, 0, 0);
    request.input_tokens = keys * TestFleet::kKeyTokens + 100;
    request.output_tokens = 100;
    fleet.send(std::move(request));
  };
  fleet.run_to(core::kStart + 30s);
  for (std::uint32_t i = 0; i < kStreams; ++i) {
    send();
    if (!at_once) fleet.run_to(fleet.now + 100ms);
  }
  while (fleet.now < core::kStart + 150s) {
    fleet.run_to(fleet.now + 10ms);
    for (; ended > 0; --ended) send();
  }
  return {fleet.sent, fleet.hit_rate(), fleet.mean_ttft_ms()};
}

struct Traffic {
  std::uint32_t replicas, families, shared_keys, own_keys;
  double rate_per_s;
  std::uint32_t cache_keys = 1024;
  double speed_of_odd_replicas = 1.0;
  std::uint32_t longer_by = 0;  // Maximum number of extra keys.
};

// Requests of many families, each with its own prefix.
Outcome families(const Traffic& traffic, Rule rule, std::uint64_t seed = 1) {
  EndpointPicker picker{{}, core::RandomStream{seed}};
  TestFleet fleet{traffic.replicas, picker};
  set_rule(fleet, picker, rule);
  for (std::uint32_t slot = 0; slot < traffic.replicas; ++slot) {
    fleet.engines[slot].cache_keys = traffic.cache_keys;
    picker.set_capacity(slot, traffic.cache_keys);
    if (slot % 2 == 1) fleet.engines[slot].tokens_per_s *= traffic.speed_of_odd_replicas;
  }
  core::RandomStream random{seed + 1};
  fleet.run_to(core::kStart + 30s);
  for (std::uint64_t number = 0; fleet.now < core::kStart + 210s; ++number) {
    fleet.run_to(fleet.now + core::from_seconds(random.exponential(1.0 / traffic.rate_per_s)));
    TestEngine::Request request;
    request.keys = prompt(random.below(traffic.families), traffic.shared_keys,
                          traffic.own_keys + static_cast<std::uint32_t>(random.below(traffic.longer_by + 1)), number);
    request.input_tokens = static_cast<std::uint32_t>(request.keys.size()) * TestFleet::kKeyTokens + 50;
    request.output_tokens = 100;
    fleet.send(std::move(request));
  }
  return {fleet.sent, fleet.hit_rate(), fleet.mean_ttft_ms()};
}

// The mean over several seeds, because a single draw of arrivals may favour any rule.
double mean_ttft_ms(const Traffic& traffic, Rule rule) {
  constexpr std::uint64_t kSeeds = 8;
  double sum = 0.0;
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) sum += families(traffic, rule, seed).mean_ttft_ms;
  return sum / kSeeds;
}

TEST(EndpointPickerFleet, AHotPromptIsReplicatedAndSpreadEvenly) {
  for (const std::uint32_t replicas : {2U, 4U, 8U})
    for (const std::uint32_t keys : {4U, 32U, 200U})
      for (const bool at_once : {true, false}) {
        const Outcome outcome = hot_prompt(replicas, keys, at_once);
        const auto [least, most] = std::minmax_element(outcome.sent.begin(), outcome.sent.end());
        EXPECT_LE(static_cast<double>(*most), 1.2 * static_cast<double>(*least))
            << replicas << " replicas, " << keys << " keys, at once " << at_once;
        EXPECT_GE(outcome.hit_rate, 0.99);
      }
}

TEST(EndpointPickerFleet, RequestsFollowTheirCachedPrefixes) {
  const Traffic traffic{.replicas = 8, .families = 64, .shared_keys = 16, .own_keys = 4, .rate_per_s = 30};
  const double best = 16.0 / 20.0;
  const Outcome price = families(traffic, Rule::kPrice);
  EXPECT_GE(price.hit_rate, 0.95 * best);
  const auto [least, most] = std::minmax_element(price.sent.begin(), price.sent.end());
  EXPECT_LE(static_cast<double>(*most), 1.35 * static_cast<double>(*least));
}

TEST(EndpointPickerFleet, RequestsFollowTheirPrefixesWhenCachesAreSmall) {
  const Traffic traffic{
      .replicas = 4, .families = 100, .shared_keys = 16, .own_keys = 1, .rate_per_s = 20, .cache_keys = 600};
  EXPECT_GE(families(traffic, Rule::kPrice).hit_rate, 0.92 * 16.0 / 17.0);
}

// Sessions whose prompts grow, with time between the turns. The caches hold them all if they are divided well.
TEST(EndpointPickerFleet, SessionsKeepTheirCachesWhileOthersBegin) {
  constexpr std::uint32_t kReplicas = 8, kSessions = 96, kTurns = 12, kFirstKeys = 150, kTurnKeys = 8;
  EndpointPicker picker{{}, core::RandomStream{1}};
  TestFleet fleet{kReplicas, picker};
  for (std::uint32_t slot = 0; slot < kReplicas; ++slot) {
    fleet.engines[slot].cache_keys = 1'600;
    picker.set_capacity(slot, 1'600);
  }
  fleet.run_to(core::kStart + 30s);
  std::vector<std::pair<core::Instant, std::uint64_t>> turns;  // Time and session.
  core::RandomStream random{3};
  for (std::uint64_t session = 0; session < kSessions; ++session) {
    core::Instant at = fleet.now + session * 4s;
    for (std::uint32_t turn = 0; turn < kTurns; ++turn) {
      turns.emplace_back(at, session);
      at += core::from_seconds(5.0 + random.exponential(15.0));
    }
  }
  std::sort(turns.begin(), turns.end());
  std::vector<std::uint32_t> turn_of(kSessions);
  double sent_keys = 0.0, earlier_keys = 0.0;
  for (const auto& [at, session] : turns) {
    fleet.run_to(at);
    const std::uint32_t keys = kFirstKeys + turn_of[session] * kTurnKeys;
    if (turn_of[session]++ > 0) earlier_keys += keys - kTurnKeys;
    sent_keys += keys;
    TestEngine::Request request;
    request.keys = prompt(session, keys, 0, 0);
    request.input_tokens = keys * TestFleet::kKeyTokens + 50;
    request.output_tokens = 100;
    fleet.send(std::move(request));
  }
  EXPECT_GE(fleet.hit_rate(), 0.94 * earlier_keys / sent_keys);
  EXPECT_LE(fleet.mean_ttft_ms(), 1'600.0);
}

TEST(EndpointPickerFleet, TtftIsLowerThanWithRoundRobinOrLeastRequests) {
  const Traffic cases[] = {
      {.replicas = 2, .families = 16, .shared_keys = 16, .own_keys = 4, .rate_per_s = 5},
      {.replicas = 8, .families = 64, .shared_keys = 16, .own_keys = 4, .rate_per_s = 20},
      {.replicas = 8, .families = 8, .shared_keys = 32, .own_keys = 2, .rate_per_s = 40},
      {.replicas = 8, .families = 1, .shared_keys = 0, .own_keys = 4, .rate_per_s = 9, .longer_by = 32},
      {.replicas = 4,
       .families = 40,
       .shared_keys = 16,
       .own_keys = 4,
       .rate_per_s = 10,
       .cache_keys = 1024,
       .speed_of_odd_replicas = 0.5},
  };
  for (const Traffic& traffic : cases) {
    const double price = mean_ttft_ms(traffic, Rule::kPrice);
    EXPECT_LT(price, mean_ttft_ms(traffic, Rule::kRoundRobin)) << traffic.families;
    EXPECT_LT(price, mean_ttft_ms(traffic, Rule::kLeastLoaded)) << traffic.families;
  }
}

// With identical prompts and nothing shared, round robin is optimal. The price is an estimate and may lose a little,
// but not more.
TEST(EndpointPickerFleet, IdenticalUnsharedPromptsLoseLittleToRoundRobin) {
  const Traffic traffic{.replicas = 8, .families = 1, .shared_keys = 0, .own_keys = 20, .rate_per_s = 9};
  EXPECT_LT(mean_ttft_ms(traffic, Rule::kPrice), 1.05 * mean_ttft_ms(traffic, Rule::kRoundRobin));
}

TEST(EndpointPickerFleet, ASlowerReplicaReceivesFewerRequests) {
  const Traffic traffic{.replicas = 4,
                        .families = 1,
                        .shared_keys = 0,
                        .own_keys = 16,
                        .rate_per_s = 5,
                        .cache_keys = 1024,
                        .speed_of_odd_replicas = 0.5};
  const Outcome outcome = families(traffic, Rule::kPrice);
  const double fast = static_cast<double>(outcome.sent[0] + outcome.sent[2]);
  const double slow = static_cast<double>(outcome.sent[1] + outcome.sent[3]);
  EXPECT_GT(slow, 0.1 * fast);
  EXPECT_LT(slow, 0.6 * fast);
}

TEST(EndpointPickerFleet, TheMeasuredPrefillRateIsAccurate) {
  EndpointPicker picker{{}, core::RandomStream{1}};
  TestFleet fleet{2, picker};
  fleet.engines[1].tokens_per_s = 20'000.0;
  core::RandomStream random{2};
  for (std::uint64_t number = 0; fleet.now < core::kStart + 200s; ++number) {
    fleet.run_to(fleet.now + core::from_seconds(random.exponential(0.25)));
    TestEngine::Request request;
    request.keys = prompt(0, 0, 4 + static_cast<std::uint32_t>(random.below(20)), number);
    request.input_tokens = static_cast<std::uint32_t>(request.keys.size()) * TestFleet::kKeyTokens + 50;
    request.output_tokens = 50;
    fleet.send(std::move(request));
  }
  // Each iteration has a fixed cost, so the rate is slightly below the nominal one.
  EXPECT_NEAR(picker.load(0, fleet.now).prefill_tokens_per_s, 7'600.0, 900.0);
  EXPECT_NEAR(picker.load(1, fleet.now).prefill_tokens_per_s, 18'000.0, 3'000.0);
}

}  // namespace
}  // namespace penstock::routing
