// The output of `penstock size`: the ways to run a replica, which one the load needs, and why.
#pragma once

#include <string>

#include "capacity/sizing.h"

namespace penstock::cli {

[[nodiscard]] std::string size_page(const capacity::SizingRequest& request, const capacity::SizingAdvice& advice);
[[nodiscard]] std::string size_json(const capacity::SizingRequest& request, const capacity::SizingAdvice& advice);

}  // namespace penstock::cli
