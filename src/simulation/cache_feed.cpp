#include "simulation/cache_feed.h"

namespace penstock::simulation {

void CacheFeed::publish(Replica& replica, bool received) {
  auto& events = replica.engine->cache().events();
  for (std::size_t i = 0; received && i < events.size();) {
    const bool stored = events[i].stored;
    keys_.clear();
    for (; i < events.size() && events[i].stored == stored; ++i) keys_.push_back(events[i].key);
    const auto change = stored ? dispatch::KvChange::kStored : dispatch::KvChange::kRemoved;
    if (delay_ == core::Duration{}) {
      dispatcher_.kv_event(replica.slot, change, keys_);
      continue;
    }
    late_.push_back({timeline_.now + delay_, replica.id, change, keys_});
    if (!pending_) timeline_.schedule(timeline_.now + delay_, EventKind::kCacheEvents);
    pending_ = true;
  }
  events.clear();
}

void CacheFeed::deliver() {
  for (; !late_.empty() && late_.front().at <= timeline_.now; late_.pop_front()) {
    const Late& late = late_.front();
    const Replica& replica = fleet_.replica(late.replica);
    if (replica.alive() && replica.listed) dispatcher_.kv_event(replica.slot, late.change, late.keys);
  }
  pending_ = !late_.empty();
  if (pending_) timeline_.schedule(late_.front().at, EventKind::kCacheEvents);
}

}  // namespace penstock::simulation
