#include "dispatch/pool_rules.h"

#include <algorithm>

#include "core/traffic_class.h"

namespace penstock::dispatch {

void PoolContexts::add(std::uint32_t pool, std::uint32_t tokens) {
  if (tokens == 0) return;
  if (pool >= limits_.size()) limits_.resize(pool + 1);
  limits_[pool] = limits_[pool] == 0 ? tokens : std::min(limits_[pool], tokens);
}

std::uint32_t PoolContexts::largest(std::size_t pools) const {
  if (limits_.size() < pools) return 0;
  if (std::find(limits_.begin(), limits_.begin() + static_cast<std::ptrdiff_t>(pools), 0U) !=
      limits_.begin() + static_cast<std::ptrdiff_t>(pools))
    return 0;
  return limits_.empty() ? 0 : *std::max_element(limits_.begin(), limits_.end());
}

bool may_take(const PoolRule& rule, const signals::SloTraits& request) {
  return request.prompt_tokens <= rule.prompt_max && (rule.tenant.empty() || rule.tenant == request.tenant);
}

bool only_while_idle(const PoolRule& rule, const signals::SloTraits& request) {
  return request.traffic_class == core::kBatchClass && rule.traffic_class != core::kBatchClass;
}

}  // namespace penstock::dispatch
