// The workers behind a front end or router, as its /metrics describe them.
#pragma once

#include <cstdint>
#include <optional>

#include "telemetry/exposition.h"

namespace penstock::telemetry {

// Sums over all workers.
struct FrontendWorkers {
  std::uint32_t workers = 0;
  std::optional<std::uint64_t> kv_tokens;
  std::optional<std::uint64_t> max_sequences;

  friend bool operator==(const FrontendWorkers&, const FrontendWorkers&) = default;
};

inline constexpr std::size_t kFrontendWorkersMax = 100'000;  // Further workers are not counted.

// Dynamo's front end names each worker in the label `worker_id` of its series and exposes the capacity of one worker as
// `dynamo_frontend_model_…`. Returns nothing for other servers, and as long as no worker is named. O(samples).
[[nodiscard]] std::optional<FrontendWorkers> read_frontend_workers(const Exposition& exposition);

}  // namespace penstock::telemetry
