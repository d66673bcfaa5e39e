// What a workload is like, in the figures that decide how hard it is to serve.
#pragma once

#include <cstdint>

#include "core/sketch.h"
#include "core/time.h"
#include "workload/request.h"

namespace penstock::workload {

struct Statistics {
  std::uint64_t requests = 0;
  core::Duration span{};  // from the start to the last arrival; rates are over it, 0 where it is 0
  double requests_per_s = 0.0;
  double gap_cv = 0.0;                    // of the gaps between arrivals: standard deviation over mean; 1 is Poisson
  double peak_10s = 0.0, peak_60s = 0.0;  // requests of the fullest window over the mean; 1 where the span is shorter
  core::Summary input_tokens, output_tokens;
  double input_tokens_per_s = 0.0, output_tokens_per_s = 0.0;
  double prefix_reuse = 0.0;    // share of prompt tokens in full blocks that an earlier request named
  std::uint32_t tenants = 0;    // that send something
  double largest_tenant = 0.0;  // its share of the requests
};
// Takes time in proportion to requests and block ids. All zero when empty.
[[nodiscard]] Statistics describe(const Workload& workload);

}  // namespace penstock::workload
