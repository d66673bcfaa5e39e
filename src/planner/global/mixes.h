// The fleets that a deployment may have: a step of each of its offers, without those that another fleet beats.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/result.h"
#include "planner/global/global_planner.h"

namespace penstock::planner::global {

inline constexpr std::size_t kMixesMax = 20'000;  // of one deployment
inline constexpr std::size_t kMixesTriedMax = 2'000'000;

struct Mix {
  std::vector<std::uint32_t> steps;  // by offer
  double carried_rps = 0.0;          // at most the demand
  std::vector<double> gpus;          // by kind of hardware
  double cost = 0.0;                 // per hour, in whole units of money
};

// What a deployment is made of, with names resolved.
struct MixInput {
  const Deployment& deployment;
  const std::vector<std::vector<std::size_t>>& kind_of;  // by offer and pool: a kind of hardware
  const std::vector<double>& prices;                     // by kind: of a GPU-hour, in whole units of money
};

// Steps of the offers, and what they use and carry.
[[nodiscard]] Mix mix_at(const MixInput& input, std::vector<std::uint32_t> steps);

// The first is the floor: every offer's first step. The others follow in order of their cost, then of their steps. A
// mix is left out when an offer could be a step lower and the mix would carry as much. kMixesMax holds for what is
// left.
[[nodiscard]] core::Result<std::vector<Mix>> mixes_of(const MixInput& input);

}  // namespace penstock::planner::global
