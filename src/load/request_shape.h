// A request before its text is generated.
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
  // Shared leading text: requests with the same id at the same position share block_tokens of it. The rest of the
  // prompt is unique. The source owns the ids.
  std::span<const std::uint32_t> blocks{};
  std::uint32_t block_tokens = 0;
  std::uint32_t tenant = 0;  // Index into the tenants of the source.
  workload::TrafficClass traffic_class = workload::TrafficClass::kInteractive;
  bool stream = true;
};

struct PlannedRequest {
  // Intended start relative to the start of the run; never earlier than that of the previous request.
  core::Duration at{};
  RequestShape shape;
};

// Returns the next request, or nothing at the end.
using RequestSource = std::function<std::optional<PlannedRequest>()>;

}  // namespace penstock::load
