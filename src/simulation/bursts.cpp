#include "simulation/bursts.h"

namespace penstock::simulation {

std::vector<bool> burst_minutes(const std::vector<std::uint64_t>& arrivals) {
  std::vector<bool> bursts(arrivals.size(), false);
  std::uint64_t before = 0;
  for (std::size_t minute = 0; minute < arrivals.size(); ++minute) {
    if (minute >= kBurstBeforeMinutes) {
      const double mean = static_cast<double>(before) / static_cast<double>(kBurstBeforeMinutes);
      bursts[minute] =
          arrivals[minute] >= kBurstRequestsMin && static_cast<double>(arrivals[minute]) > kBurstFactor * mean;
      before -= arrivals[minute - kBurstBeforeMinutes];
    }
    before += arrivals[minute];
  }
  return bursts;
}

}  // namespace penstock::simulation
