// State of the gateway's process that the admin address reports.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>

namespace penstock::gateway {

struct LedgerHealth {
  bool writable = true;
  std::uint64_t waiting = 0, dropped = 0;  // Entries.
};

// Any thread may use it. The version and the functions are set before the gateway starts.
struct Lifecycle {
  std::string version;                // Of the program; empty: it is not exported.
  std::atomic<bool> draining{false};  // GET /ready answers 503.
  std::atomic<std::uint64_t> reloads_applied{0}, reloads_rejected{0};
  std::atomic<std::int64_t> applied_unix_s{0}, rejected_unix_s{0};  // Times of the last ones; 0: there was none.
  std::function<LedgerHealth()> ledger;                             // Empty: no ledger is written.
  // Lines that were not written since the start. Empty: there is no such log.
  std::function<std::uint64_t()> lost_log_lines, lost_access_lines;
};

}  // namespace penstock::gateway
