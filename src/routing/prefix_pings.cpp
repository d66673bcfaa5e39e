#include "routing/prefix_pings.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace penstock::routing {

std::vector<Ping> pings_due(std::span<const PrefixUse> uses, const PingOptions& options, core::Instant now) {
  std::vector<const PrefixUse*> due;
  for (const PrefixUse& use : uses)
    if (now - use.used_at <= options.hot && now - use.sent_at >= options.idle) due.push_back(&use);
  std::sort(due.begin(), due.end(), [](const PrefixUse* a, const PrefixUse* b) {
    const auto rank = [](const PrefixUse& use) {
      return std::tuple{use.replica, -static_cast<double>(use.hits) * use.tokens, use.prefix};
    };
    return rank(*a) < rank(*b);
  });
  std::vector<Ping> pings;
  std::map<std::uint32_t, std::uint32_t> count;
  for (const PrefixUse* use : due)
    if (count[use->replica]++ < options.per_replica) pings.push_back({use->replica, use->prefix});
  return pings;
}

}  // namespace penstock::routing
