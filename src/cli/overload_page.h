// What a configuration protects, and what it does under overload, on one page.
#pragma once

#include <string>

#include "configuration/configuration.h"

namespace penstock::cli {

// Which token SLO is protected for which segment, which pool is scaled when it is missed, and which requests are
// queued, refused or shortened when the fleet cannot grow fast enough.
[[nodiscard]] std::string overload_page(const configuration::Configuration& made);

}  // namespace penstock::cli
