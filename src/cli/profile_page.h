// The page that `penstock profile` prints: step times, and what a replica carries.
#pragma once

#include <memory>
#include <string>
#include <vector>

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
  // Most sequences at once that were measured; 0: the model is not measured.
  double measured_sequences = 0.0;
  // The measurement ended at these limits before the engine did, which may have higher ones.
  bool sequences_at_least = false, kv_tokens_at_least = false;
};
// Why the capacity of a measured replica is uncertain; empty if all of it was measured.
[[nodiscard]] std::vector<std::string> capacity_warnings(const ProfiledReplica& replica);
[[nodiscard]] std::string profile_page(const ProfiledReplica& replica);

}  // namespace penstock::cli
