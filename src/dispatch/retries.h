// Whether a request may be sent to a replica once more.
#pragma once

#include <cstdint>

#include "core/time.h"
#include "dispatch/active_requests.h"
#include "dispatch/options.h"
#include "dispatch/replica_set.h"
#include "signals/minute_slices.h"

namespace penstock::dispatch {

// What all requests together may use for retries: a share of the requests that were granted within the last minute, so
// that retries add little to the load when many attempts fail, however many requests there were before.
class RetryBudget {
 public:
  void granted(core::Instant now) { ++slices_.at(now).granted; }
  void retried(core::Instant now) { ++slices_.at(now).retried; }
  // Whether the retries of the last minute leave room for one more.
  [[nodiscard]] bool has_room(double share, core::Instant now) const;

 private:
  struct Slice {
    std::uint64_t granted = 0, retried = 0;
  };
  signals::MinuteSlices<Slice> slices_;
};

// Neither its own retries nor the budget of all requests for retries are used up.
[[nodiscard]] bool has_retry_left(const ActiveRequest& request, const DispatchOptions& options,
                                  const RetryBudget& budget, core::Instant now);
// Discovery names a healthy replica, ejected or not, that the request was not sent to.
[[nodiscard]] bool has_other_replica(const ActiveRequest& request, const ReplicaSet& replicas);

}  // namespace penstock::dispatch
