// Contradictions in an allocation between values that are each fine alone.
#pragma once

#include "config/allocation.h"

namespace penstock::config {

// Names pools that have none after their hardware, and reports what cannot be: names that are there twice or unknown,
// bounds the wrong way round, roles that make no deployment, and budgets below the least fleet.
void check_allocation(AllocationSettings& settings, Problems& problems);

}  // namespace penstock::config
