#include "capacity/token_formula.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/random.h"
#include "engine/linear.h"
#include "engine/polynomial.h"

namespace penstock::capacity {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
const engine::Polynomial kPolynomial;
const signals::SloTarget kSlo;

TEST(ReplicasByFormula, AreTheGreaterOfBothSides) {
  // 70 of 100·0.7 tokens/s is one replica; 71 are two.
  const auto even = replicas_by_formula(70.0, 70.0, {100.0, 50.0}, 0.7);
  ASSERT_TRUE(even.has_value());
  EXPECT_EQ(even->by_input, 1U);
  EXPECT_EQ(even->by_output, 2U);
  EXPECT_EQ(even->replicas, 2U);
  EXPECT_DOUBLE_EQ(even->utilisation, 0.7);
  EXPECT_EQ(replicas_by_formula(71.0, 0.0, {100.0, 50.0}, 0.7)->replicas, 2U);
}

TEST(ReplicasByFormula, AreNoneForNoTrafficAndOneForLittle) {
  EXPECT_EQ(replicas_by_formula(0.0, 0.0, {100.0, 50.0}, 0.8)->replicas, 0U);
  EXPECT_DOUBLE_EQ(replicas_by_formula(0.0, 0.0, {100.0, 50.0}, 0.8)->utilisation, 0.0);
  EXPECT_EQ(replicas_by_formula(1e-12, 0.0, {100.0, 50.0}, 0.8)->replicas, 1U);
  EXPECT_EQ(replicas_by_formula(50.0, 0.0, {100.0, 0.0}, 0.8)->replicas, 1U);  // a side without traffic needs nothing
}

TEST(ReplicasByFormula, RejectInvalidRatesAndCapacities) {
  const TokenCapacity good{100.0, 50.0};
  for (const double bad : {-1.0, std::nan(""), kInfinity}) {
    EXPECT_FALSE(replicas_by_formula(bad, 1.0, good, 0.8).has_value()) << bad;
    EXPECT_FALSE(replicas_by_formula(1.0, bad, good, 0.8).has_value()) << bad;
    EXPECT_FALSE(replicas_by_formula(1.0, 1.0, {bad, 50.0}, 0.8).has_value()) << bad;
    EXPECT_FALSE(replicas_by_formula(1.0, 1.0, {100.0, bad}, 0.8).has_value()) << bad;
    EXPECT_FALSE(replicas_by_formula(1.0, 1.0, good, bad).has_value()) << bad;
  }
  EXPECT_FALSE(replicas_by_formula(1.0, 1.0, good, 0.0).has_value());
  EXPECT_FALSE(replicas_by_formula(1.0, 1.0, good, 1.01).has_value());
  EXPECT_FALSE(replicas_by_formula(1.0, 1.0, {0.0, 50.0}, 0.8).has_value());
  EXPECT_FALSE(replicas_by_formula(1e300, 1.0, {1e-300, 50.0}, 0.8).has_value());
}

TEST(ReplicasByFormula, HoldTheUtilisationForAnyRates) {
  core::RandomStream random{7};
  for (int i = 0; i < 2000; ++i) {
    const double in = random.uniform(0.0, 1e6), out = random.uniform(0.0, 1e5), target = random.uniform(0.1, 1.0);
    const TokenCapacity capacity{random.uniform(1.0, 1e5), random.uniform(1.0, 1e4)};
    const auto found = replicas_by_formula(in, out, capacity, target);
    ASSERT_TRUE(found.has_value());
    ASSERT_LE(found->utilisation, target * (1.0 + 1e-6));
    const double one_less = found->replicas - 1.0;
    ASSERT_GT(std::max(in / capacity.input_tokens_per_s, out / capacity.output_tokens_per_s),
              one_less * target * 0.999);
  }
}

TEST(TokenCapacity, OfDecodingAloneIsWhatTheSlotsOrTheItlAllow) {
  // A step of b sequences takes 10 + b ms: 37.5 ms allow 27.5 sequences at busy times, b + 1.645·√b = 27.5.
  const auto law = *engine::Linear::make({10.0, 1.0, 0.0, 0.0});
  CapacityOptions options;
  options.role = signals::Role::kDecode;
  const auto by_itl = token_capacity(law, {1000, 101, 0}, {}, kSlo, options);
  ASSERT_TRUE(by_itl.has_value());
  EXPECT_NEAR(by_itl->concurrency + 1.645 * std::sqrt(by_itl->concurrency), 27.5, 0.01);
  EXPECT_NEAR(by_itl->itl_ms, 37.5, 0.01);
  EXPECT_NEAR(by_itl->requests_per_s, by_itl->concurrency / (100 * (10 + by_itl->concurrency) * 1e-3), 1e-3);
  EXPECT_NEAR(by_itl->tokens.output_tokens_per_s, 101 * by_itl->requests_per_s, 1e-6);
  EXPECT_EQ(by_itl->ttft_ms, 0.0);

  const auto by_slots = token_capacity(law, {1000, 101, 0}, {.max_sequences = 10}, kSlo, options);
  EXPECT_NEAR(by_slots->concurrency + 1.645 * std::sqrt(by_slots->concurrency), 9.0, 0.01);
  const auto by_kv = token_capacity(law, {1000, 101, 0}, {.kv_tokens = 10'505}, kSlo, options);
  EXPECT_NEAR(by_kv->concurrency, by_slots->concurrency, 0.01);
}

TEST(TokenCapacity, ARequestOfOneTokenNeedsNoDecodeReplica) {
  const auto law = *engine::Linear::make({10.0, 1.0, 0.0, 0.0});
  CapacityOptions options;
  options.role = signals::Role::kDecode;
  EXPECT_FALSE(token_capacity(law, {1000, 1, 0}, {}, kSlo, options).has_value());
  options.role = signals::Role::kPrefill;
  EXPECT_TRUE(token_capacity(law, {1000, 1, 0}, {}, kSlo, options).has_value());
}

TEST(TokenCapacity, OfPromptsAloneStaysBelowWhatOneStepComputes) {
  CapacityOptions options;
  options.role = signals::Role::kPrefill;
  const auto found = token_capacity(kPolynomial, {2000, 200, 0}, {}, kSlo, options);
  ASSERT_TRUE(found.has_value());
  engine::StepShape full;
  full.prefill_requests = 4;
  full.prefill_new_tokens = 8192;
  const double most = 8192.0 / core::to_seconds(kPolynomial.step(full));
  EXPECT_LT(found->tokens.input_tokens_per_s, most);
  EXPECT_GT(found->tokens.input_tokens_per_s, 0.8 * most);
  EXPECT_LE(found->ttft_ms, 1800.0 + 1e-6);
  EXPECT_EQ(found->concurrency, 0.0);
}

TEST(TokenCapacity, GrowsWithEveryImprovement) {
  const TrafficShape shape{3000, 150, 0};
  const double usual = token_capacity(kPolynomial, shape, {}, kSlo)->requests_per_s;
  EXPECT_GT(token_capacity(kPolynomial, {3000, 150, 0.5}, {}, kSlo)->requests_per_s, usual);
  EXPECT_GT(token_capacity(kPolynomial, {1500, 150, 0}, {}, kSlo)->requests_per_s, usual);
  EXPECT_GT(token_capacity(kPolynomial, shape, {}, {kSlo.ttft, 2 * kSlo.itl})->requests_per_s, usual);
  EXPECT_LT(token_capacity(kPolynomial, shape, {}, kSlo, {.factor = 1.3})->requests_per_s, usual);
  EXPECT_LT(token_capacity(kPolynomial, shape, {.kv_tokens = 40'000}, kSlo)->requests_per_s, usual);
}

TEST(TokenCapacity, IsNoneWhereNotEvenOneRequestKeepsTheSlo) {
  EXPECT_FALSE(token_capacity(kPolynomial, {2000, 200, 0}, {}, {kSlo.ttft, std::chrono::milliseconds{5}}).has_value());
  EXPECT_FALSE(token_capacity(kPolynomial, {2000, 200, 0}, {}, {std::chrono::milliseconds{20}, kSlo.itl}).has_value());
}

TEST(TokenCapacity, RefusesWhatIsNoShape) {
  for (const double bad : {-1.0, 0.0, std::nan(""), kInfinity}) {
    EXPECT_FALSE(token_capacity(kPolynomial, {bad, 200, 0}, {}, kSlo).has_value()) << bad;
    EXPECT_FALSE(token_capacity(kPolynomial, {2000, bad, 0}, {}, kSlo).has_value()) << bad;
    EXPECT_FALSE(token_capacity(kPolynomial, {2000, 200, 0}, {.max_sequences = bad}, kSlo).has_value()) << bad;
    EXPECT_FALSE(token_capacity(kPolynomial, {2000, 200, 0}, {.kv_tokens = bad}, kSlo).has_value()) << bad;
    EXPECT_FALSE(token_capacity(kPolynomial, {2000, 200, 0}, {}, kSlo, {.factor = bad}).has_value()) << bad;
  }
  EXPECT_FALSE(token_capacity(kPolynomial, {2000, 200, 1.0}, {}, kSlo).has_value());
}

// Whatever the shape: finite, within the limits, and what is claimed to be kept is kept.
TEST(TokenCapacity, IsFiniteAndKeepsTheMargins) {
  core::RandomStream random{11};
  const engine::Linear law = *engine::Linear::make({6.0, 0.05, 0.03, 0.00004});
  int found_any = 0;
  for (int i = 0; i < 600; ++i) {
    const TrafficShape shape{random.log_normal(1500, 1.5) + 1, random.log_normal(150, 1.2) + 1, random.uniform() * 0.9};
    const EngineLimits limits{1.0 + static_cast<double>(random.below(512)),
                              512.0 + static_cast<double>(random.below(16'000)), 1000.0 + random.uniform(0.0, 2e6)};
    CapacityOptions options;
    options.role = static_cast<signals::Role>(random.below(3));
    options.factor = random.uniform(0.5, 2.0);
    const engine::StepTimeModel& model =
        random.below(2) == 0 ? static_cast<const engine::StepTimeModel&>(law) : kPolynomial;
    const auto found = token_capacity(model, shape, limits, kSlo, options);
    if (!found) continue;
    ++found_any;
    for (const double figure : {found->requests_per_s, found->tokens.input_tokens_per_s,
                                found->tokens.output_tokens_per_s, found->concurrency, found->itl_ms, found->ttft_ms})
      ASSERT_TRUE(std::isfinite(figure) && figure >= 0.0);
    ASSERT_GT(found->requests_per_s, 0.0);
    ASSERT_LE(found->concurrency, limits.max_sequences);
    ASSERT_LE(found->ttft_ms, 1800.0 * (1 + 1e-9));
    ASSERT_LE(found->itl_ms, 37.5 * (1 + 1e-9));
  }
  EXPECT_GT(found_any, 300);
}

}  // namespace
}  // namespace penstock::capacity
