#include "routing/sessions.h"

namespace penstock::routing {

std::uint32_t Sessions::find(std::uint64_t session, core::Instant now) const {
  const std::uint32_t node = keys_.find(session);
  if (node == RecentKeys::kNone) return kNone;
  const Place& place = places_[node];
  return now - place.at <= kept_ && place.use_of_slot == uses(place.slot) ? place.slot : kNone;
}

void Sessions::remember(std::uint64_t session, std::uint32_t slot, core::Instant now) {
  if (most_ == 0) return;
  std::uint32_t node = keys_.find(session);
  if (node != RecentKeys::kNone) {
    keys_.touch(node);
  } else {
    if (keys_.size() >= most_) keys_.erase(keys_.oldest());
    node = keys_.insert(session);
    if (node >= places_.size()) places_.resize(node + 1);
  }
  places_[node] = {slot, uses(slot), now};
}

void Sessions::forget(std::uint32_t slot) {
  if (slot >= uses_.size()) uses_.resize(slot + 1);
  ++uses_[slot];
}

}  // namespace penstock::routing
