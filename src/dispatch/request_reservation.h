// What a request takes from the budgets until its end.
#pragma once

#include "dispatch/active_requests.h"
#include "dispatch/options.h"
#include "dispatch/replica_set.h"
#include "dispatch/request.h"

namespace penstock::dispatch {

// Fills the claim of the request. Where the worst case is reserved, no answer may exceed what was reserved for it:
// max_tokens is lowered then. A request without max_tokens gets the cap of its tenant or model. A replayed request
// reserves what was recorded, at least its prompt and its answer. `capacity`: the smallest burst of its budgets,
// infinite if none is limited.
void reserve(ActiveRequest& request, const RequestInfo& info, const DispatchOptions& options,
             const ReplicaSet& replicas, double capacity);

}  // namespace penstock::dispatch
