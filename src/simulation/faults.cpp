#include "simulation/faults.h"

#include <algorithm>

namespace penstock::simulation {

const char* to_string(FaultKind kind) {
  switch (kind) {
    case FaultKind::kCrash: return "crash";
    case FaultKind::kHang: return "hang";
    case FaultKind::kSlow: return "slow";
    case FaultKind::kGatewayRestart: return "gateway_restart";
    case FaultKind::kTruncate: return "truncate";
    case FaultKind::kMiscount: return "miscount";
  }
  return "";
}

bool is_active(const FaultEvent& event, FaultKind kind, std::uint32_t replica, std::string_view pool,
               core::Instant now) {
  return event.kind == kind && event.begin() <= now && now < event.end() && event.concerns(replica, pool);
}

bool truncates(const Faults& faults, std::uint32_t replica, std::string_view pool, core::Instant now) {
  return std::any_of(faults.events.begin(), faults.events.end(), [&](const FaultEvent& event) {
    return is_active(event, FaultKind::kTruncate, replica, pool, now);
  });
}

bool has_miscounts(const Faults& faults) {
  return std::any_of(faults.events.begin(), faults.events.end(),
                     [](const FaultEvent& event) { return event.kind == FaultKind::kMiscount; });
}

double slow_factor(const Faults& faults, std::uint32_t replica, std::string_view pool, core::Instant now) {
  double factor = 1.0;
  for (const FaultEvent& event : faults.events)
    if (is_active(event, FaultKind::kSlow, replica, pool, now)) factor *= event.factor;
  return factor;
}

}  // namespace penstock::simulation
