#include "planner/policy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <set>

#include "decision/decision_text.h"

namespace penstock::planner {
namespace {

// These divide by a capacity.
constexpr std::string_view kMeasured[] = {"hpa-rate", "hpa-concurrency", "keda-tokens",
                                          "kpa",      "token-velocity",  "hourly-floor"};

std::string error_of(std::string_view name, const PolicyContext& context = {}) {
  const auto policy = make_policy(name, context);
  return policy ? "no error" : policy.error().message();
}

TEST(PolicyRegistry, EveryNamedPolicyIsMadeAndKnowsItsName) {
  for (const std::string_view name : policy_names()) {
    const auto policy = make_policy(name, {});
    ASSERT_TRUE(policy) << name << ": " << policy.error().message();
    EXPECT_EQ((*policy)->name(), name);
    EXPECT_GT((*policy)->interval(), core::Duration::zero()) << name;
  }
}
TEST(PolicyRegistry, NamesAreUniqueAndInTheOrderOfTheHelp) {
  const auto names = policy_names();
  EXPECT_EQ(std::set(names.begin(), names.end()).size(), names.size());
  EXPECT_EQ(names, (std::vector<std::string_view>{"static",
                                                  "hpa-rate",
                                                  "hpa-concurrency",
                                                  "keda-tokens",
                                                  "kpa",
                                                  "apa",
                                                  "llmd-saturation-v1",
                                                  "llmd-saturation-v2",
                                                  "llmd-slo",
                                                  "llmd-queue",
                                                  "llmd-queue-guard",
                                                  "llmd-pool-saturation",
                                                  "llmd-token-aware",
                                                  "dynamo-throughput",
                                                  "dynamo-latency",
                                                  "dynamo-load",
                                                  "dynamo-sla",
                                                  "dynamo-sla-load",
                                                  "dynamo-sla-throughput",
                                                  "token-velocity",
                                                  "hourly-floor"}));
}
TEST(PolicyRegistry, EveryPolicyHasASummaryOfOneLineOfItsOwn) {
  std::set<std::string_view> seen;
  for (const std::string_view name : policy_names()) {
    const std::string_view summary = policy_summary(name);
    EXPECT_FALSE(summary.empty()) << name;
    EXPECT_EQ(summary.find('\n'), std::string_view::npos) << name;
    EXPECT_TRUE(seen.insert(summary).second) << name;
  }
  EXPECT_EQ(policy_summary("nonesuch"), "");
}
TEST(PolicyRegistry, AnUnknownNameIsAnErrorThatListsAll) {
  EXPECT_EQ(error_of("hpa"),
            "policy: there is none named 'hpa'; use one of: static, hpa-rate, hpa-concurrency, keda-tokens, kpa, apa, "
            "llmd-saturation-v1, llmd-saturation-v2, llmd-slo, llmd-queue, llmd-queue-guard, llmd-pool-saturation, "
            "llmd-token-aware, dynamo-throughput, dynamo-latency, dynamo-load, dynamo-sla, dynamo-sla-load, "
            "dynamo-sla-throughput, token-velocity, hourly-floor");
  for (const std::string_view name : {"", "STATIC", "kpa "}) EXPECT_NE(error_of(name), "no error") << name;
}
bool is_needed(const CapacityNeeds& needs, double ReplicaCapacity::*figure) {
  if (figure == &ReplicaCapacity::requests_per_s) return needs.requests_per_s;
  if (figure == &ReplicaCapacity::input_tokens_per_s) return needs.input_tokens_per_s;
  return figure == &ReplicaCapacity::concurrency ? needs.concurrency : needs.output_tokens_per_s;
}
TEST(PolicyRegistry, APolicyNeedsTheFiguresThatItDividesBy) {
  for (const std::string_view name : policy_names())
    EXPECT_EQ(capacity_needs(name).any(),
              std::find(std::begin(kMeasured), std::end(kMeasured), name) != std::end(kMeasured))
        << name;
  EXPECT_TRUE(capacity_needs("hpa-rate:utilisation=0.5").requests_per_s);
  EXPECT_FALSE(capacity_needs("hpa-rate").concurrency);
  EXPECT_TRUE(capacity_needs("kpa").concurrency);
  EXPECT_FALSE(capacity_needs("kpa").requests_per_s);
  const CapacityNeeds tokens = capacity_needs("keda-tokens");
  EXPECT_TRUE(tokens.input_tokens_per_s && tokens.output_tokens_per_s);
  EXPECT_FALSE(tokens.requests_per_s || tokens.concurrency);
  for (const std::string_view other : {"penstock", "clairvoyant", "schedule:a.csv"})
    EXPECT_FALSE(capacity_needs(other).any()) << other;
}
TEST(PolicyRegistry, AZeroCapacityIsAnError) {
  for (const double bad :
       {0.0, -1.0, std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()}) {
    for (double ReplicaCapacity::*figure : {&ReplicaCapacity::requests_per_s, &ReplicaCapacity::input_tokens_per_s,
                                            &ReplicaCapacity::output_tokens_per_s, &ReplicaCapacity::concurrency}) {
      PolicyContext context;
      context.capacity.*figure = bad;
      for (const std::string_view name : kMeasured)
        EXPECT_EQ(error_of(name, context) != "no error", is_needed(capacity_needs(name), figure)) << name << ' ' << bad;
      EXPECT_EQ(error_of("static", context), "no error");
      EXPECT_EQ(error_of("apa", context), "no error");
    }
  }
}
TEST(PolicyRegistry, ACapacityErrorSaysWhichFigureAndWhatToDo) {
  PolicyContext context;
  context.capacity.requests_per_s = 0.0;
  EXPECT_EQ(error_of("hpa-rate", context),
            "capacity.requests_per_s: must be positive, is 0; load-test one replica at an slo that it can keep");
  context.capacity.requests_per_s = 1.0;
  context.capacity.concurrency = -2.0;
  EXPECT_EQ(error_of("kpa", context),
            "capacity.concurrency: must be positive, is -2; load-test one replica at an slo that it can keep");
}
TEST(PolicyRegistry, AnSloOfZeroIsAnError) {
  PolicyContext context;
  context.slo.ttft = core::Duration::zero();
  EXPECT_EQ(error_of("llmd-slo", context), "slo.ttft: must be positive, is 0");
  context = {};
  context.context_length = 0;
  EXPECT_EQ(error_of("dynamo-throughput", context), "context_length: must be positive, is 0");
}

TEST(PolicyNames, ReasonsAndLimitsHaveNamesOfTheirOwn) {
  std::set<std::string_view> names;
  for (int reason = 0; reason <= static_cast<int>(Reason::kFollower); ++reason)
    EXPECT_TRUE(names.insert(to_string(static_cast<Reason>(reason))).second) << reason;
  for (int limit = 0; limit <= static_cast<int>(Limit::kTakeOver); ++limit)
    EXPECT_TRUE(names.insert(to_string(static_cast<Limit>(limit))).second) << limit;
  EXPECT_FALSE(names.contains("unknown"));
  EXPECT_STREQ(to_string(Limit::kNone), "");
}

TEST(PolicySentence, NamesEachFigureWithItsUnit) {
  const PoolDecision decision{
      1, 2, Reason::kFixed, Limit::kNone, {{"request_rate", 12.4, "1/s"}, {"demand", 123456.7, "tokens"}}};
  EXPECT_EQ(sentence(decision), "request_rate 12.4 1/s, demand 123457 tokens");
  EXPECT_EQ(sentence(PoolDecision{}), "");
}
TEST(PolicySentence, LargeFiguresHaveNoExponent) {
  const auto sentence_of = [](double value) {
    return sentence(PoolDecision{0, 0, Reason::kFixed, Limit::kNone, {{"ttft", value, "ms"}}});
  };
  EXPECT_EQ(sentence_of(999.4), "ttft 999 ms");
  EXPECT_EQ(sentence_of(999.6), "ttft 1000 ms");
  EXPECT_EQ(sentence_of(1.5e9), "ttft 1500000000 ms");
  EXPECT_EQ(sentence_of(0.0), "ttft 0 ms");
}

}  // namespace
}  // namespace penstock::planner
