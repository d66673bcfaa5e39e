// Notices when overload policies begin and cease to act on segments, for the log.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "core/time.h"
#include "dispatch/overview.h"

namespace penstock::gateway {

struct OverloadChange {
  std::string tenant, traffic_class, action;
  bool began = false;
  std::uint64_t requests = 0;  // On which the policy acted, once it has ended.
};

// Requests that only wait are no change. For one thread.
class OverloadWatch {
 public:
  // A policy has ended when it acted on no request for this time, so that each segment and action has at most one
  // change of each kind in it.
  static constexpr core::Duration kQuiet = std::chrono::seconds{30};

  // `segments` have totals since the start. O(segments log segments).
  [[nodiscard]] std::vector<OverloadChange> look(std::span<const dispatch::SegmentOverload> segments,
                                                 core::Instant now);

 private:
  struct Action {
    std::uint64_t seen = 0, at_begin = 0;
    core::Instant grown_at;
    bool acts = false;
  };
  using Key = std::tuple<std::string, std::string, std::size_t>;  // Tenant, class and number of the action.
  std::map<Key, Action> actions_;
};

}  // namespace penstock::gateway
