// What a run of `penstock up` came to.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace penstock::cli {

// The documents /api/state and /api/points of the live page, of one deployment. `points` may be empty.
struct RunDocuments {
  std::string state, points;
};

// The names of the deployments that are planned together, as a state lists them; empty if there is only one.
[[nodiscard]] std::vector<std::string> deployments_in(std::string_view state);

// Lines on requests, attainment, GPU-hours and cost: of the run, or of each deployment and of all. Empty if a state
// cannot be read.
[[nodiscard]] std::string run_summary(const std::vector<RunDocuments>& runs);

}  // namespace penstock::cli
