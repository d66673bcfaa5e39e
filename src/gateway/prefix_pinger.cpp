#include "gateway/prefix_pinger.h"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "api/request.h"
#include "routing/prefix_pings.h"

namespace penstock::gateway {
namespace {

constexpr core::Duration kLookMin = std::chrono::milliseconds{100};  // Between two looks for pings that are due.

}  // namespace

PrefixPinger::PrefixPinger(net::Loop& loop, const GatewayOptions& options, SharedDispatcher& dispatcher,
                           HealthChecker& replicas)
    : loop_(loop), options_(options), dispatcher_(dispatcher), replicas_(replicas) {
  if (options_.prefix_pings && dispatcher_.hot_prefixes() != nullptr)
    loop_.every(std::min(options_.ping_interval, std::max(kLookMin, options_.prefix_pings->idle / 3)),
                [this] { ping(); });
}

void PrefixPinger::ping() {
  const core::Instant now = loop_.now();
  const std::vector<HotPrefix> prefixes = dispatcher_.hot_prefixes()->hot({}, now);
  std::vector<routing::PrefixUse> uses;
  std::map<std::uint32_t, std::string> ids;  // Ids of replicas, by slot.
  for (std::uint64_t number = 0; number < prefixes.size(); ++number) {
    const HotPrefix& prefix = prefixes[number];
    for (const dispatch::PrefixHolder& holder : dispatcher_.idle_holders(*prefix.text, now)) {
      const CheckedReplica* const checked = replicas_.find(holder.replica);
      if (checked == nullptr || !checked->is_idle()) continue;
      ids[holder.slot] = holder.replica;
      uses.push_back({holder.slot, number, prefix.hits, prefix.text->tokens, prefix.used_at, holder.sent_at});
    }
  }
  for (const routing::Ping& due : routing::pings_due(uses, *options_.prefix_pings, now)) {
    const PrefixText& text = *prefixes[due.prefix].text;
    dispatcher_.pinged(due.replica, text, now);
    replicas_.send_prompt(ids.at(due.replica), api::path_of(text.endpoint), text.body);
  }
}

}  // namespace penstock::gateway
