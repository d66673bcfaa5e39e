#include "routing/sessions.h"

namespace penstock::routing {

std::uint32_t Sessions::find(std::uint64_t session, core::Instant now) const {
  const std::uint32_t node = keys_.find(session);
  if (node == RecentKeys::kNone) return kNone;
  const Location& location = locations_[node];
  return now - location.at <= kept_ && location.slot_generation == generation(location.slot) ? location.slot : kNone;
}

void Sessions::remember(std::uint64_t session, std::uint32_t slot, core::Instant now) {
  if (most_ == 0) return;
  std::uint32_t node = keys_.find(session);
  if (node != RecentKeys::kNone) {
    keys_.touch(node);
  } else {
    if (keys_.size() >= most_) keys_.erase(keys_.oldest());
    node = keys_.insert(session);
    if (node >= locations_.size()) locations_.resize(node + 1);
  }
  locations_[node] = {slot, generation(slot), now};
}

void Sessions::forget(std::uint32_t slot) {
  if (slot >= generations_.size()) generations_.resize(slot + 1);
  ++generations_[slot];
}

}  // namespace penstock::routing
