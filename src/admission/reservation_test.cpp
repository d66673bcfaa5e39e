#include "admission/reservation.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "core/random.h"

namespace penstock::admission {
namespace {

TEST(Reservation, IsTheWholePromptAndAllAnswers) {
  const Reservation made = reserve_worst_case({100, 400, 64, 100, 10'000.0});
  EXPECT_EQ(made.claim.tokens, 400U + 64U * 100U);
  EXPECT_EQ(made.claim.needed, made.claim.tokens);
  EXPECT_EQ(made.max_tokens, 100U);
}

TEST(Reservation, HoldsEachOfSeveralAnswers) {
  const Reservation made = reserve_worst_case({100, 400, 2, 1000, 10'000.0});
  EXPECT_EQ(made.claim.tokens, 2400U);
  EXPECT_EQ(made.max_tokens, 1000U);
}

TEST(Reservation, MaxTokensIsLoweredToWhatAFullBudgetHolds) {
  const Reservation made = reserve_worst_case({1000, 4000, 1, 32'000, 10'000.0});
  EXPECT_EQ(made.max_tokens, 9'000U);
  EXPECT_EQ(made.claim.needed, 10'000U);
  EXPECT_EQ(made.claim.tokens, 13'000U);
  EXPECT_EQ(reserve_worst_case({1000, 4000, 8, 4096, 10'000.0}).max_tokens, 9'000U / 8);
}

TEST(Reservation, APromptWithoutAnswersReservesItself) {
  EXPECT_EQ(reserve_worst_case({100, 400, 1, 0, 10'000.0}).claim.tokens, 400U);
  EXPECT_EQ(reserve_worst_case({9'000, 36'000, 1, 0, 10'000.0}).claim.needed, 10'000U);
  EXPECT_GT(reserve_worst_case({10'001, 40'000, 1, 0, 10'000.0}).claim.needed, 10'000U);
}

TEST(Reservation, WhatCanNeverFitNeedsMoreThanTheCapacity) {
  EXPECT_GT(reserve_worst_case({10'000, 40'000, 1, 5, 10'000.0}).claim.needed, 10'000U);
  EXPECT_GT(reserve_worst_case({10, 40, 20'000, 5, 10'000.0}).claim.needed, 10'000U);
  EXPECT_GT(reserve_worst_case({4'000'000'000, 16'000'000'000, 1ULL << 40, UINT32_MAX, 1.0}).claim.needed, 1U);
}

TEST(Reservation, CoversThePromptAndTheAnswers) {
  core::RandomStream random{5};
  for (int i = 0; i < 20'000; ++i) {
    ReservationRequest request;
    request.prompt_tokens = static_cast<std::uint32_t>(1 + random.below(4'000));
    request.prompt_tokens_most = request.prompt_tokens * (1 + random.below(8));
    request.answers = 1 + random.below(100);
    request.max_tokens = static_cast<std::uint32_t>(1 + random.below(5'000));
    request.capacity = 1.0 + random.uniform() * 20'000.0;
    const Reservation made = reserve_worst_case(request);
    EXPECT_GE(made.claim.tokens, made.claim.needed);
    if (static_cast<double>(made.claim.needed) > request.capacity) {
      EXPECT_GT(static_cast<double>(request.prompt_tokens + request.answers), request.capacity);
      continue;
    }
    EXPECT_GE(made.max_tokens, 1U);
    EXPECT_LE(made.max_tokens, request.max_tokens);
    EXPECT_EQ(made.claim.tokens, request.prompt_tokens_most + request.answers * made.max_tokens);
    EXPECT_LE(static_cast<double>(request.prompt_tokens + request.answers * made.max_tokens), request.capacity);
  }
}

}  // namespace
}  // namespace penstock::admission
