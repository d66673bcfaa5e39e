// The possible fleets of a deployment: combinations of its offers' steps, without dominated ones.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/result.h"
#include "planner/global/global_planner.h"

namespace penstock::planner::global {

inline constexpr std::size_t kMixesMax = 20'000;  // Maximum per deployment.
inline constexpr std::size_t kMixesTriedMax = 2'000'000;

struct Mix {
  std::vector<std::uint32_t> steps;  // By offer.
  double carried_rps = 0.0;          // At most the demand.
  std::vector<double> gpus;          // By kind of hardware.
  double cost = 0.0;                 // Per hour, in whole units of money.
};

// The parts of a deployment, with resolved names.
struct MixInput {
  const Deployment& deployment;
  const std::vector<std::vector<std::size_t>>& kind_of;  // By offer and pool: a kind of hardware.
  const std::vector<double>& prices;                     // By kind: whole units of money per GPU-hour.
};

// Steps of the offers with their use and capacity.
[[nodiscard]] Mix mix_at(const MixInput& input, std::vector<std::uint32_t> steps);

// The first mix is the floor: every offer's first step. The others are ordered by cost, then by steps. A mix is omitted
// if an offer could be a step lower and the mix would serve as much. kMixesMax applies to the remaining mixes.
[[nodiscard]] core::Result<std::vector<Mix>> mixes_of(const MixInput& input);

}  // namespace penstock::planner::global
