// What a diagnosis asks of the world: who a request is, and where its time went.
#include <algorithm>

#include "simulation/world.h"

namespace penstock::simulation {

signals::RequestTraits World::traits_of(std::uint32_t request) const {
  const workload::Request& shape = workload_.requests[request];
  return {shape.input_tokens, shape.tenant, shape.traffic_class == workload::TrafficClass::kBatch,
          recorder_.cache_hit(request)};
}

// Of a request whose first token is out now. No admission stands in front of these pools.
signals::FirstTokenTimes World::times_of(std::uint32_t request) const {
  const Passage& passage = passages_[request];
  signals::FirstTokenTimes times;
  times.replica_wait = passage.submitted - workload_.requests[request].arrival;
  times.queue = passage.admitted - passage.submitted;
  times.prefill = passage.prefilled - passage.admitted;
  times.transfer = now_ - passage.prefilled;
  return times;
}

signals::PoolDetail World::detail_of(std::uint32_t pool) {
  signals::PoolDetail detail = segments_[pool].read(now_, workload_.tenants);
  core::Instant oldest = now_;
  for (const std::uint32_t request : fleet_.pools()[pool].unrouted) {
    const bool entry = pool == entry_pool_;
    oldest = std::min(oldest, entry ? workload_.requests[request].arrival : passages_[request].prefilled);
  }
  detail.oldest_unrouted_age = now_ - oldest;
  return detail;
}

}  // namespace penstock::simulation
