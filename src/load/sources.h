// Request sources of the generator: a mix at a rate, a mix without times, or a recorded trace.
#pragma once

#include <cstdint>
#include <vector>

#include "load/arrivals.h"
#include "load/request_mix.h"
#include "load/request_shape.h"

namespace penstock::load {

// All sources end after `requests_max` (0 means no limit).
[[nodiscard]] RequestSource mixed_source(RequestMix mix, Arrivals arrivals, std::uint64_t requests_max);
// For a closed loop, in which responses determine the times: every time is zero.
[[nodiscard]] RequestSource timeless_source(RequestMix mix, std::uint64_t requests_max);

struct TraceOptions {
  double speed = 1.0;  // Divides all times.
  // Maps each tenant of the workload to an index of the generator's tenants.
  std::vector<std::uint32_t> tenants{};
  bool own_classes = true;                          // Uses the classes of the trace instead of those of the mix.
  bool own_streaming = true;                        // Streams what the trace streamed, instead of the share of the mix.
  core::Duration duration = core::Duration::max();  // Requests that start later are skipped.
  std::uint64_t requests_max = 0;
};
// Lengths, blocks and times come from the trace, everything else from the mix. The workload must outlive the source.
[[nodiscard]] RequestSource trace_source(const workload::Workload& workload, RequestMix mix, TraceOptions options);

}  // namespace penstock::load
