#include "routing/router.h"

#include <algorithm>

#include "core/result.h"

namespace penstock::routing {

Router::Router(Strategy strategy, std::uint32_t block_tokens, core::RandomStream random)
    : strategy_(strategy), block_tokens_(block_tokens), random_(random) {}

void Router::set_eligible(std::uint32_t slot, bool eligible) {
  if (slot >= loads_.size()) {
    loads_.resize(slot + 1);
    overlap_.resize(slot + 1);
  }
  if (loads_[slot].eligible == eligible) return;
  loads_[slot].eligible = eligible;
  const auto at = std::lower_bound(eligible_.begin(), eligible_.end(), slot);
  if (eligible) {
    eligible_.insert(at, slot);
  } else {
    eligible_.erase(at);
  }
}

void Router::forget(std::uint32_t slot) {
  set_eligible(slot, false);
  index_.forget(slot);
  loads_[slot] = ReplicaLoad{};
}

std::optional<Choice> Router::choose(const RouteRequest& request) {
  if (eligible_.empty()) return std::nullopt;
  switch (strategy_) {
    case Strategy::kLive: break;  // EndpointPicker
    case Strategy::kKv: return choose_kv(request);
    case Strategy::kRoundRobin: return Choice{eligible_[turn_++ % eligible_.size()], 0};
    case Strategy::kLeastLoaded: {
      // The start rotates, so that equal replicas take turns.
      const std::size_t start = turn_++ % eligible_.size();
      std::uint32_t best = eligible_[start];
      for (std::size_t i = 1; i < eligible_.size(); ++i) {
        const std::uint32_t slot = eligible_[(start + i) % eligible_.size()];
        if (loads_[slot].open_requests < loads_[best].open_requests) best = slot;
      }
      return Choice{best, 0};
    }
    case Strategy::kPowerOfTwo: {
      const auto size = eligible_.size();
      const std::size_t first = random_.below(size);
      const std::size_t second = size == 1 ? first : (first + 1 + random_.below(size - 1)) % size;
      const std::uint32_t one = eligible_[first], two = eligible_[second];
      return Choice{loads_[two].open_requests < loads_[one].open_requests ? two : one, 0};
    }
  }
  return std::nullopt;
}

Choice Router::choose_kv(const RouteRequest& request) {
  index_.overlaps(request.keys, std::span{overlap_});
  std::uint32_t best = eligible_.front();
  std::int64_t best_cost = INT64_MAX;
  std::uint64_t equal = 0;
  for (const std::uint32_t slot : eligible_) {
    const ReplicaLoad& load = loads_[slot];
    // Computed in tokens to stay in integers.
    const auto prefill = static_cast<std::int64_t>(load.prefill_tokens + request.input_tokens) -
                         std::int64_t{overlap_[slot]} * block_tokens_;
    const std::int64_t cost =
        std::max<std::int64_t>(0, prefill) + static_cast<std::int64_t>(load.kv_blocks) * block_tokens_;
    if (cost < best_cost) {
      best_cost = cost;
      best = slot;
      equal = 1;
    } else if (cost == best_cost && random_.below(++equal) == 0) {
      best = slot;
    }
  }
  return {best, overlap_[best]};
}

void Router::dispatched(std::uint32_t slot, std::uint32_t prefill_tokens, std::uint32_t blocks) {
  ReplicaLoad& load = loads_[slot];
  ++load.open_requests;
  load.prefill_tokens += prefill_tokens;
  load.kv_blocks += blocks;
}

void Router::first_token(std::uint32_t slot, std::uint32_t prefill_tokens) {
  PENSTOCK_ASSERT(loads_[slot].prefill_tokens >= prefill_tokens, "a first token answers what was sent");
  loads_[slot].prefill_tokens -= prefill_tokens;
}

void Router::finished(std::uint32_t slot, std::uint32_t blocks) {
  ReplicaLoad& load = loads_[slot];
  PENSTOCK_ASSERT(load.open_requests > 0 && load.kv_blocks >= blocks, "a request that ends was sent");
  --load.open_requests;
  load.kv_blocks -= blocks;
}

}  // namespace penstock::routing
