#include "simulation/faults.h"

namespace penstock::simulation {

const char* to_string(FaultKind kind) {
  switch (kind) {
    case FaultKind::kCrash: return "crash";
    case FaultKind::kHang: return "hang";
    case FaultKind::kSlow: return "slow";
    case FaultKind::kGatewayRestart: return "gateway_restart";
  }
  return "";
}

double slow_factor(const Faults& faults, std::uint32_t replica, std::string_view pool, core::Instant now) {
  double factor = 1.0;
  for (const FaultEvent& event : faults.events)
    if (event.kind == FaultKind::kSlow && event.begin() <= now && now < event.end() && event.concerns(replica, pool))
      factor *= event.factor;
  return factor;
}

}  // namespace penstock::simulation
