// Checks whether traffic stays within the measured range of a profile, beyond which step times are extrapolated.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/sketch.h"
#include "engine/profile.h"
#include "engine/step_time.h"
#include "signals/observation.h"

namespace penstock::capacity {

struct TokenRange {
  double low = 0.0, high = 0.0;  // Tokens.
};

// Measured ranges of a profile.
struct ProfileRanges {
  TokenRange prompt;         // Prompt lengths.
  TokenRange context;        // Lengths of decoding sequences.
  double kv_tokens_max = 0;  // Maximum KV tokens in flight.
};
[[nodiscard]] ProfileRanges ranges_of(const engine::EngineProfile& profile);
// As far as replicas of the role use the model. Empty for a model that is a formula.
[[nodiscard]] std::optional<ProfileRanges> ranges_of(const engine::StepTimeModel& model, signals::Role role);

struct ProfileCoverage {
  std::vector<std::string>
      // For example "prompts up to 32000 tokens, the profile ends at 8192: …"; empty if the profile covers all traffic.
      warnings;
  double share_outside = 0.0;  // Share of requests, 0 to 1.
};

// Checks requests one by one with O(1) memory. Values up to 5 % beyond an end of the profile count as covered.
class ProfileRangeCheck {
 public:
  // KV capacity of a replica; 0 means unknown, and the capacity is not checked.
  explicit ProfileRangeCheck(const ProfileRanges& ranges, double kv_capacity_tokens = 0.0);

  void add(std::uint32_t input_tokens, std::uint32_t output_tokens);

  // Warnings are based on the 1st and 99th percentile of prompts and contexts (prompt + output). Before the first
  // request only the KV capacity is checked.
  [[nodiscard]] ProfileCoverage coverage() const;

 private:
  ProfileRanges ranges_;
  double kv_capacity_tokens_;
  core::QuantileSketch prompts_, contexts_;
  std::uint64_t requests_ = 0, outside_ = 0;
};

}  // namespace penstock::capacity
