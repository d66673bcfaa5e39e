// Where the generator's requests come from: a mix at a rate, a mix without times, or a recorded trace.
#pragma once

#include <cstdint>
#include <vector>

#include "load/arrivals.h"
#include "load/request_mix.h"
#include "load/request_shape.h"

namespace penstock::load {

// All end after `requests_max` (0: no limit).
[[nodiscard]] RequestSource mixed_source(RequestMix mix, Arrivals arrivals, std::uint64_t requests_max);
// For a closed loop, where answers say when the next one starts: every time is zero.
[[nodiscard]] RequestSource timeless_source(RequestMix mix, std::uint64_t requests_max);

struct TraceOptions {
  double speed = 1.0;                               // times are divided by it
  std::vector<std::uint32_t> tenants{};             // for each tenant of the workload its index among the generator's
  bool own_classes = true;                          // the trace's classes count, not the mix's
  core::Duration duration = core::Duration::max();  // what starts later is left out
  std::uint64_t requests_max = 0;
};
// Lengths, blocks and times are the trace's; the rest is drawn from the mix. The workload has to outlive the source.
[[nodiscard]] RequestSource trace_source(const workload::Workload& workload, RequestMix mix, TraceOptions options);

}  // namespace penstock::load
