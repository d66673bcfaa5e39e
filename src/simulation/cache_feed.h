// KV events on their way from engines to the router.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "core/time.h"
#include "dispatch/dispatcher.h"
#include "simulation/fleet.h"
#include "simulation/gateway_options.h"
#include "simulation/timeline.h"

namespace penstock::simulation {

// Delivers the events of each engine in their order, at once or after a delay.
class CacheFeed {
 public:
  CacheFeed(core::Duration delay, dispatch::Dispatcher& dispatcher, Timeline& timeline, Fleet& fleet)
      : delay_(delay), dispatcher_(dispatcher), timeline_(timeline), fleet_(fleet) {}

  // Takes what the cache of the replica reports. Without a gateway that receives it, it is lost.
  void publish(Replica& replica, bool received);
  // The time of EventKind::kCacheEvents has come.
  void deliver();
  void clear() { late_.clear(); }

 private:
  struct Late {
    core::Instant at;
    std::uint32_t replica = 0;
    dispatch::KvChange change{};
    std::vector<std::uint64_t> keys;
  };

  core::Duration delay_;
  dispatch::Dispatcher& dispatcher_;
  Timeline& timeline_;
  Fleet& fleet_;
  std::deque<Late> late_;
  bool pending_ = false;
  std::vector<std::uint64_t> keys_;
};

// At the start of a run, the caches of the replicas hold RunOptions::cached, and the router knows it.
void fill_caches(const RunOptions& options, const Gateway& gateway, dispatch::Dispatcher& dispatcher,
                 Timeline& timeline, Fleet& fleet);

}  // namespace penstock::simulation
