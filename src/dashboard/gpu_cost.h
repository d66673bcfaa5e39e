// The GPU cost of tokens by tenant, for the live page.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>

#include "controller/traffic_recorder.h"
#include "core/time.h"
#include "report/token_cost.h"

namespace penstock::dashboard {

// `cost` is that of the tokens of all tenants, in the last `period`; empty: it is unknown.
[[nodiscard]] nlohmann::ordered_json gpu_cost_json(const std::optional<decision::TokenCost>& cost,
                                                   std::span<const controller::TenantTokens> tenants,
                                                   core::Duration period);

}  // namespace penstock::dashboard
