// State of the gateway's process that the admin address reports.
#pragma once

#include <atomic>
#include <cstdint>

namespace penstock::gateway {

// Any thread may use it.
struct Lifecycle {
  std::atomic<bool> draining{false};  // GET /ready answers 503.
  std::atomic<std::uint64_t> reloads_applied{0}, reloads_rejected{0};
  std::atomic<std::int64_t> applied_unix_s{0}, rejected_unix_s{0};  // Times of the last ones; 0: there was none.
};

}  // namespace penstock::gateway
