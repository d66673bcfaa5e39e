// What gateways report to each other about the budgets that they share, as JSON.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "core/result.h"
#include "dispatch/peer_budgets.h"

namespace penstock::gateway {

inline constexpr std::size_t kBudgetDocumentBytesMax = std::size_t{16} << 20;

// docs/gateway.md describes it.
[[nodiscard]] std::string budget_document(const dispatch::BudgetReport& report);

// The bytes come from outside: every number of the report is in a range that can be added up.
[[nodiscard]] core::Result<dispatch::BudgetReport> read_budget_document(std::string_view json);

}  // namespace penstock::gateway
