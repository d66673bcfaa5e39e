// Whether traffic stays within what a profile measured; beyond, step times are a guess.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/sketch.h"
#include "engine/profile.h"

namespace penstock::capacity {

struct TokenRange {
  double low = 0.0, high = 0.0;  // tokens
};

// What a profile measured.
struct ProfileRanges {
  TokenRange prompt;         // lengths of prompts
  TokenRange context;        // lengths of decoding sequences
  double kv_tokens_max = 0;  // in flight
};
[[nodiscard]] ProfileRanges ranges_of(const engine::EngineProfile& profile);

struct ProfileCoverage {
  std::vector<std::string>
      warnings;                // "prompts up to 32000 tokens, the profile ends at 8192: …"; empty: all is covered
  double share_outside = 0.0;  // of the requests, 0..1
  // What an estimate's uncertainty is to be multiplied by: 1 + share_outside.
  double widening = 1.0;
};

// Looks at requests one by one; O(1) memory. What lies up to 5 % beyond an end of the profile counts as within it.
class ProfileRangeCheck {
 public:
  // `kv_capacity_tokens` of a replica; 0: not known, then it is not looked at.
  explicit ProfileRangeCheck(const ProfileRanges& ranges, double kv_capacity_tokens = 0.0);

  void add(std::uint32_t input_tokens, std::uint32_t output_tokens);

  // Warnings are about the 1st and the 99th percentile of prompts and of contexts (prompt + output). Nothing but the KV capacity is looked at before the first request.
  [[nodiscard]] ProfileCoverage coverage() const;

 private:
  ProfileRanges ranges_;
  double kv_capacity_tokens_;
  core::QuantileSketch prompts_, contexts_;
  std::uint64_t requests_ = 0, outside_ = 0;
};

}  // namespace penstock::capacity
