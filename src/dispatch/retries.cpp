#include "dispatch/retries.h"

#include <vector>

namespace penstock::dispatch {

bool has_retry_left(const ActiveRequest& request, const DispatchOptions& options, const Counters& counters) {
  // A few retries are always allowed, also at a quiet gateway.
  constexpr double kAlways = 10.0;
  if (!request.granted || request.attempts > options.retries) return false;
  return static_cast<double>(counters.retried) < kAlways + options.retry_share * static_cast<double>(counters.granted);
}

bool has_other_replica(const ActiveRequest& request, const ReplicaSet& replicas) {
  std::vector<std::uint32_t> tried = request.failed_slots;
  tried.push_back(request.slot);
  using signals::Role;
  if (replicas.any_available(request.model, Role::kAggregated, tried)) return true;
  return request.splits && replicas.any_available(request.model, Role::kDecode, {}) &&
         replicas.any_available(request.model, Role::kPrefill, tried);
}

}  // namespace penstock::dispatch
