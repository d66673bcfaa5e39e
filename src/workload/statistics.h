// Statistics of a workload that determine how hard it is to serve.
#pragma once

#include <cstdint>

#include "core/sketch.h"
#include "core/time.h"
#include "workload/request.h"

namespace penstock::workload {

struct Statistics {
  std::uint64_t requests = 0;
  core::Duration span{};  // From the start to the last arrival. Rates are relative to it, and 0 if it is 0.
  double requests_per_s = 0.0;
  // Coefficient of variation of inter-arrival times: standard deviation over mean; 1 is Poisson.
  double gap_cv = 0.0;
  // Peak-to-mean ratio: requests of the fullest window over the mean; 1 if the span is shorter.
  double peak_10s = 0.0, peak_60s = 0.0;
  core::Summary input_tokens, output_tokens;
  double input_tokens_per_s = 0.0, output_tokens_per_s = 0.0;
  double prefix_reuse = 0.0;    // Share of prompt tokens in full blocks that an earlier request used.
  std::uint32_t tenants = 0;    // Tenants with at least one request.
  double largest_tenant = 0.0;  // Share of its requests.
};
// Linear in requests and block ids. All zero for an empty workload.
[[nodiscard]] Statistics describe(const Workload& workload);

}  // namespace penstock::workload
