// The GPU cost of tokens by tenant, for the live page.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "controller/gpu_cost_meter.h"
#include "core/time.h"

namespace penstock::dashboard {

// Those of the last `period`. Costs are null while it is unknown which part of the cost is that of prompts.
[[nodiscard]] nlohmann::ordered_json gpu_cost_json(const decision::GpuCosts& costs, core::Duration period);

}  // namespace penstock::dashboard
