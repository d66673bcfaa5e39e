// One request to be made, before there is any text of it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>

#include "core/time.h"
#include "workload/request.h"

namespace penstock::load {

struct RequestShape {
  std::uint32_t input_tokens = 1, output_tokens = 1;
  // Shared leading text: requests with the same id at the same place share block_tokens of it. What is left of the
  // prompt behind them is its own. The ids belong to the source.
  std::span<const std::uint32_t> blocks{};
  std::uint32_t block_tokens = 0;
  std::uint32_t tenant = 0;  // index into the tenants that the source knows
  workload::TrafficClass traffic_class = workload::TrafficClass::kInteractive;
  bool stream = true;
};

struct PlannedRequest {
  core::Duration at{};  // intended start, since the start of the run; never before the one of the request before
  RequestShape shape;
};

// The next request; none when there are no more.
using RequestSource = std::function<std::optional<PlannedRequest>()>;

}  // namespace penstock::load
