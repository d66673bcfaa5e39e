// The sentences of refusals that name a limit of a tenant or class.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "admission/budget.h"
#include "admission/queue.h"
#include "core/time.h"

namespace penstock::admission {

inline constexpr std::uint32_t kRetryAfterMax = 60;
[[nodiscard]] std::uint32_t whole_seconds(core::Duration wait);  // 1 to kRetryAfterMax, rounded up.

[[nodiscard]] std::string class_option(Class traffic_class, const char* option);

// `whose` names the budget with its option; `tokens` is what the request reserves.
[[nodiscard]] std::string budget_sentence(const BudgetLimits& limits, const std::string& whose, double available,
                                          std::uint64_t tokens, std::uint32_t seconds);
[[nodiscard]] std::string too_large_sentence(const BudgetLimits& limits, const std::string& whose,
                                             std::uint64_t tokens);

// For a tenant that has as many requests in flight as it may, of which some are at other gateways.
[[nodiscard]] std::string concurrency_sentence(std::string_view tenant, std::uint32_t running,
                                               std::uint32_t running_elsewhere, std::uint32_t limit);

}  // namespace penstock::admission
