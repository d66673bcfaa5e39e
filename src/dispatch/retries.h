// Whether a request may be sent to a replica once more.
#pragma once

#include "dispatch/active_requests.h"
#include "dispatch/options.h"
#include "dispatch/overview.h"
#include "dispatch/replica_set.h"

namespace penstock::dispatch {

// Neither its own retries nor the budget of all requests for retries are used up.
[[nodiscard]] bool has_retry_left(const ActiveRequest& request, const DispatchOptions& options,
                                  const Counters& counters);
// Discovery names a healthy replica, ejected or not, that the request was not sent to.
[[nodiscard]] bool has_other_replica(const ActiveRequest& request, const ReplicaSet& replicas);

}  // namespace penstock::dispatch
