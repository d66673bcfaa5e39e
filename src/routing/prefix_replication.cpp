#include "routing/prefix_replication.h"

#include <cmath>

namespace penstock::routing {

double PrefixReplication::left(const Place& place, core::Instant now) {
  if (place.rent_ms == 0.0) return 0.0;
  return place.rent_ms * std::exp2(-core::to_seconds(now - place.at) / core::to_seconds(kHalfLife));
}

double PrefixReplication::rent_ms(std::uint64_t key, core::Instant now) const {
  const Place& place = places_[place_of(key)];
  return place.key == key ? left(place, now) : 0.0;
}

void PrefixReplication::pay(std::uint64_t key, double rent_ms, core::Instant now) {
  Place& place = places_[place_of(key)];
  const double kept = left(place, now);
  if (place.key != key && kept > rent_ms) return;
  place = {key, place.key == key ? kept + rent_ms : rent_ms, now};
}

void PrefixReplication::bought(std::uint64_t key) {
  Place& place = places_[place_of(key)];
  if (place.key == key) place = {};
}

}  // namespace penstock::routing
