// Several pools of aggregated replicas for one model: which pool serves a request, and where else it may go.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "signals/slo.h"

namespace penstock::dispatch {

// The first pool that matches a request is its own. `model` of the selector is not used.
struct PoolRule : signals::RequestSelector {
  std::string name;
  bool overflow = true;  // Its requests may go to a pool that answers clearly sooner.
};

inline constexpr std::size_t kPoolsMax = 64;

// The queue of the requests of a model, by its meters, and of a pool. Requests of different pools do not wait for the
// same replicas, so that none stands in front of the others.
[[nodiscard]] inline std::uint32_t queue_number(const std::vector<PoolRule>& rules, std::uint32_t meters,
                                                std::uint32_t pool) {
  return meters * static_cast<std::uint32_t>(rules.size() + 1) + pool;
}

// The contexts that the replicas of each pool report, of prompt and answer together.
class PoolContexts {
 public:
  void add(std::uint32_t pool, std::uint32_t tokens);  // 0: it is not known.
  // False if a replica of the pool has reported a smaller context.
  [[nodiscard]] bool holds(std::uint32_t pool, std::uint32_t tokens) const {
    return pool >= limits_.size() || limits_[pool] == 0 || tokens <= limits_[pool];
  }
  // The largest limit of so many pools; 0 if one has not reported any, because that may turn out to be the largest.
  [[nodiscard]] std::uint32_t largest(std::size_t pools) const;

 private:
  std::vector<std::uint32_t> limits_;  // By pool: the smallest that its replicas report; 0 or absent: none does.
};

// Whether the pool may take requests of other pools, as far as the rules know: the prompt is not too long for it, and
// it is not reserved for another tenant. A batch request may besides go to a pool without the class "batch" only while
// that is idle.
[[nodiscard]] bool may_take(const PoolRule& rule, const signals::SloTraits& request);
[[nodiscard]] bool only_while_idle(const PoolRule& rule, const signals::SloTraits& request);

}  // namespace penstock::dispatch
