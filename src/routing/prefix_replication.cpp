#include "routing/prefix_replication.h"

#include <cmath>

namespace penstock::routing {

double PrefixReplication::left(const Entry& entry, core::Instant now) {
  if (entry.rent_ms == 0.0) return 0.0;
  return entry.rent_ms * std::exp2(-core::to_seconds(now - entry.at) / core::to_seconds(kHalfLife));
}

double PrefixReplication::rent_ms(std::uint64_t key, core::Instant now) const {
  const Entry& entry = entries_[entry_of(key)];
  return entry.key == key ? left(entry, now) : 0.0;
}

void PrefixReplication::pay(std::uint64_t key, double rent_ms, core::Instant now) {
  Entry& entry = entries_[entry_of(key)];
  const double kept = left(entry, now);
  if (entry.key != key && kept > rent_ms) return;
  entry = {key, entry.key == key ? kept + rent_ms : rent_ms, now};
}

void PrefixReplication::reset(std::uint64_t key) {
  Entry& entry = entries_[entry_of(key)];
  if (entry.key == key) entry = {};
}

}  // namespace penstock::routing
