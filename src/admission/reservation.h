// What a request takes from the budgets at its admission.
#pragma once

#include <cstdint>

#include "admission/estimator.h"

namespace penstock::admission {

enum class Reserve : std::uint8_t {
  kWorst,     // The most that the request can use.
  kExpected,  // The estimate. Requests that use more are charged at their end.
};

struct ReservationRequest {
  std::uint32_t prompt_tokens = 0;       // Estimated.
  std::uint64_t prompt_tokens_most = 0;  // No tokenizer makes more of the prompt.
  std::uint64_t answers = 1;             // Number of prompts times answers to each.
  std::uint32_t max_tokens = 0;          // Limit of one answer.
  double capacity = 0.0;                 // The smallest burst of the budgets that apply.
};

// The budgets must hold `needed` tokens, and `tokens` are taken from them, which may leave them negative.
struct BudgetClaim {
  std::uint64_t needed = 0, tokens = 0;
  std::uint64_t output = 0;  // Of the needed tokens: those of the answers.
};

[[nodiscard]] inline BudgetClaim claim_of(const TokenEstimate& estimate) {
  return {estimate.total(), estimate.total(), estimate.output_tokens};
}

struct Reservation {
  BudgetClaim claim;
  std::uint32_t max_tokens = 0;  // The limit that each answer must have for the claim to suffice.
};

// Takes prompt_tokens_most + answers x max_tokens. If that exceeds the capacity, max_tokens is lowered so far that the
// estimated prompt and the answers fit, and the budgets must be full. If not even answers of one token fit, the needed
// tokens exceed the capacity, and the request can never be admitted.
[[nodiscard]] Reservation reserve_worst_case(const ReservationRequest& request);

}  // namespace penstock::admission
