#include "controller/gateway_cursors.h"

#include <algorithm>
#include <utility>

namespace penstock::controller {

std::uint64_t GatewayCursors::after(const std::string& boot) const {
  const auto known =
      std::find_if(gateways_.begin(), gateways_.end(), [&](const Gateway& each) { return each.boot == boot; });
  return known == gateways_.end() ? 0 : known->next;
}

bool GatewayCursors::take(const std::string& boot, std::uint64_t after, std::uint64_t next) {
  auto known = std::find_if(gateways_.begin(), gateways_.end(), [&](const Gateway& each) { return each.boot == boot; });
  if (known == gateways_.end()) {
    if (after != 0) return false;
    if (gateways_.size() == kGatewaysMax) gateways_.erase(gateways_.begin());
    known = gateways_.insert(gateways_.end(), Gateway{boot, 0});
  }
  if (known->next != after) return false;
  known->next = next;
  std::rotate(known, known + 1, gateways_.end());
  return true;
}

void GatewayCursors::restart() {
  for (Gateway& each : gateways_) each.next = 0;
}

bool SharedAddress::answered(const std::string& boot, core::Instant now) {
  const std::string apart = std::exchange(apart_, {});
  const auto known = std::find(boots_.begin(), boots_.end(), boot);
  if (known != boots_.end()) {
    const bool is_back = known != boots_.begin() || (!apart.empty() && apart != boot);
    std::rotate(boots_.begin(), known, known + 1);
    if (!is_back || (reported_at_ && now - *reported_at_ < kReportPause)) return false;
    reported_at_ = now;
    return true;
  }
  if (boots_.size() == kGatewaysMax) boots_.pop_back();
  boots_.insert(boots_.begin(), boot);
  return false;
}

void SharedAddress::answered_apart(const std::string& boot) {
  if (!boots_.empty() && boots_.front() != boot) apart_ = boot;
}

}  // namespace penstock::controller
