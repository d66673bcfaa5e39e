#include "gateway/overload_watch.h"

namespace penstock::gateway {

std::vector<OverloadChange> OverloadWatch::look(std::span<const dispatch::SegmentOverload> segments,
                                                core::Instant now) {
  std::vector<OverloadChange> changes;
  constexpr auto kOnlyWaits = static_cast<std::size_t>(admission::OverloadAction::kQueue);
  for (const dispatch::SegmentOverload& segment : segments)
    for (std::size_t number = 0; number < segment.counts.size(); ++number) {
      const std::uint64_t count = segment.counts[number];
      if (number == kOnlyWaits || count == 0) continue;
      const auto action = static_cast<admission::OverloadAction>(number);
      Action& known = actions_[{segment.tenant, to_string(segment.traffic_class), number}];
      const auto change = [&](bool began) {
        changes.push_back({segment.tenant, to_string(segment.traffic_class), to_string(action), began,
                           began ? 0 : known.seen - known.at_begin});
      };
      if (count > known.seen) {
        if (!known.acts) {
          known.at_begin = known.seen;
          change(true);
        }
        known.acts = true;
        known.grown_at = now;
        known.seen = count;
      } else if (known.acts && now - known.grown_at >= kQuiet) {
        known.acts = false;
        change(false);
      }
    }
  return changes;
}

}  // namespace penstock::gateway
