// The output of `penstock size`: the ways to run a replica, which one the load needs, and why.
#pragma once

#include <string>
#include <vector>

#include "capacity/engine_advice.h"
#include "capacity/sizing.h"

namespace penstock::cli {

[[nodiscard]] std::string size_page(const capacity::SizingRequest& request, const capacity::SizingAdvice& advice,
                                    const std::vector<capacity::EngineAdvice>& engine);
[[nodiscard]] std::string size_json(const capacity::SizingRequest& request, const capacity::SizingAdvice& advice,
                                    const std::vector<capacity::EngineAdvice>& engine);

}  // namespace penstock::cli
