// The page that `penstock profile` prints: step times, and what a replica carries.
#pragma once

#include <memory>
#include <string>

#include "capacity/token_formula.h"
#include "engine/step_time.h"
#include "signals/slo.h"

namespace penstock::cli {

struct ProfiledReplica {
  std::shared_ptr<const engine::StepTimeModel> model;
  capacity::EngineLimits limits;
  capacity::TrafficShape traffic;
  signals::SloTarget slo;
  std::string assumptions;       // Of the KV cache; empty if none was made.
  double longest_prompt = 1e12;  // Longer prompts and contexts are not shown.
};
[[nodiscard]] std::string profile_page(const ProfiledReplica& replica);

}  // namespace penstock::cli
