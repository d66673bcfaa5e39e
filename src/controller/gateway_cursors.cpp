#include "controller/gateway_cursors.h"

#include <algorithm>
#include <utility>

namespace penstock::controller {

bool GatewayCursors::answered(const std::string& boot, core::Instant now) {
  const std::string apart = std::exchange(apart_, {});
  const auto known =
      std::find_if(gateways_.begin(), gateways_.end(), [&](const Gateway& each) { return each.boot == boot; });
  if (known != gateways_.end()) {
    const bool is_back = known != gateways_.begin() || (!apart.empty() && apart != boot);
    std::rotate(gateways_.begin(), known, known + 1);
    if (!is_back || (reported_at_ && now - *reported_at_ < kReportPause)) return false;
    reported_at_ = now;
    return true;
  }
  if (gateways_.size() == kGatewaysMax) gateways_.pop_back();
  gateways_.insert(gateways_.begin(), Gateway{boot, 0});
  return false;
}

void GatewayCursors::answered_apart(const std::string& boot) {
  if (!gateways_.empty() && gateways_.front().boot != boot) apart_ = boot;
}

bool GatewayCursors::take(std::uint64_t after, std::uint64_t next) {
  if (gateways_.empty() || gateways_.front().next != after) return false;
  gateways_.front().next = next;
  return true;
}

void GatewayCursors::restart() {
  for (Gateway& each : gateways_) each.next = 0;
}

}  // namespace penstock::controller
