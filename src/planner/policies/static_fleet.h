// "static": target' = target. The baseline of every autoscaler.
#pragma once

#include <memory>

#include "planner/policy.h"

namespace penstock::planner {

[[nodiscard]] std::unique_ptr<Policy> make_static_fleet(const PolicyContext& context);

}  // namespace penstock::planner
