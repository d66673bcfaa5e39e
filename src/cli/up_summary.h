// What a run of `penstock up` came to.
#pragma once

#include <string>
#include <string_view>

namespace penstock::cli {

// Lines on requests, attainment, GPU-hours and cost, from the documents /api/state and /api/points of the live page.
// Empty if the state cannot be read; `points` may be empty.
[[nodiscard]] std::string run_summary(std::string_view state, std::string_view points);

}  // namespace penstock::cli
