#include "dispatch/retries.h"

#include <algorithm>
#include <vector>

namespace penstock::dispatch {

bool RetryBudget::has_room(double share, core::Instant now) const {
  // A few retries are always allowed, also at a quiet gateway.
  constexpr double kAlways = 10.0;
  Slice minute;
  slices_.each(now, [&](const Slice& slice) {
    minute.granted += slice.granted;
    minute.retried += slice.retried;
  });
  // The request that is retried was granted, though perhaps more than a minute ago.
  const auto granted = static_cast<double>(std::max<std::uint64_t>(1, minute.granted));
  return static_cast<double>(minute.retried) < kAlways + share * granted;
}

bool has_retry_left(const ActiveRequest& request, const DispatchOptions& options, const RetryBudget& budget,
                    core::Instant now) {
  if (!request.granted || request.attempts > options.retries) return false;
  return budget.has_room(options.retry_share, now);
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
