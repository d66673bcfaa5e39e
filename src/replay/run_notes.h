// What a reader of the results must know about single policies.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "configuration/configuration.h"
#include "decision/run_result.h"

namespace penstock::replay {

// A clairvoyant run below its goal, and settings of the planner that policies in the results ignore.
[[nodiscard]] std::vector<std::string> run_notes(std::span<const decision::RunResult> results,
                                                 const configuration::PlannerSetup& planner);

}  // namespace penstock::replay
