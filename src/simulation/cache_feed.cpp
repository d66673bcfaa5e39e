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

void fill_caches(const RunOptions& options, const Gateway& gateway, dispatch::Dispatcher& dispatcher,
                 Timeline& timeline, Fleet& fleet) {
  CacheFeed feed{{}, dispatcher, timeline, fleet};
  std::vector<engine::KvCache::Node> nodes;
  std::vector<std::uint64_t> keys;
  for (const auto& [index, prompt] : options.cached) {
    Replica& replica = fleet.replica(fleet.pools()[prompt.pool].replicas[index]);
    engine::KvCache& cache = replica.engine->cache();
    nodes.clear();
    cache.acquire_all(
        static_cast<std::uint32_t>(prompt.block_ids.size()), [&](std::uint32_t i) { return prompt.block_ids[i]; },
        nodes);
    // The end of a prompt is evicted first.
    for (auto node = nodes.rbegin(); node != nodes.rend(); ++node) cache.release(*node);
    feed.publish(replica, true);
    if (options.router != routing::Strategy::kLive) continue;
    gateway.keys_of(prompt.block_ids, keys);
    dispatcher.pinged(replica.slot, gateway.model, keys, timeline.now);
  }
}

}  // namespace penstock::simulation
