// User requests as plain values: the input of every simulation.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/time.h"

namespace penstock::workload {

enum class TrafficClass : std::uint8_t { kInteractive, kBatch };

inline constexpr std::uint32_t kNoSession = UINT32_MAX;

// One request. 40 bytes, so that a million requests with block ids take far less than 300 MB.
struct Request {
  core::Instant arrival;            // Relative to the start of the workload's window.
  std::uint32_t input_tokens = 0;   // Greater than 0.
  std::uint32_t output_tokens = 0;  // Greater than 0.
  std::uint32_t tenant = 0;         // Index into Workload::tenants.
  std::uint32_t session = kNoSession;
  std::uint32_t first_block = 0;  // Index into Workload::block_ids.
  std::uint32_t block_count = 0;  // 0 means that the request shares no prefix.
  TrafficClass traffic_class = TrafficClass::kInteractive;
  std::int8_t priority = 0;  // Higher priorities are served first by schedulers that use priorities.
  bool streamed = true;      // Otherwise its answer comes whole: there is no first token to be seen.
  // Tokens that a gateway reserved in its budgets, as recorded; 0: unknown.
  std::uint32_t reserved_tokens = 0;
  std::uint32_t expected_output_tokens = 0;  // What a gateway expected of the answer; 0: unknown.
};

// A request that arrives some time after the end of another one, as the turns of a session do. With several waits it
// arrives when the last of them is over.
struct Wait {
  std::uint32_t request = 0, previous = 0;  // Indices into Workload::requests.
  core::Duration after{};                   // From the end of `previous`, however it ended.
};

// A time of a trace without requests that is so long that a wrong timestamp is likely.
struct LongGap {
  std::string before;             // The row that ends it, as "file:line"; the file where rows have no order.
  core::Duration at{}, length{};  // Arrival of the request before it, and the time until the next one.
};
inline constexpr core::Duration kLongGap = std::chrono::hours{24};

// Requests in order of arrival, with the identities of their KV blocks.
//
// A block id identifies a whole prefix: two requests with the same id at the same position share every token up to and
// including that block (like Mooncake's `hash_ids`). Ids cover the prompt's blocks in order, and may continue over the
// output, so that a later turn of a session finds the previous output in the cache. A partial last block is never
// shared, whatever its id.
struct Workload {
  std::string name;
  std::vector<Request> requests;
  std::vector<std::uint32_t> block_ids;
  std::uint32_t block_tokens = 512;  // Tokens per block id.
  // In order of `request`. The arrival of a request that waits is only an estimate: the recorded one, or that without
  // the time of answers. Empty: all requests arrive at their times.
  std::vector<Wait> waits;
  std::vector<std::string> tenants = {"default"};
  std::uint64_t skipped_rows = 0;  // Invalid rows that were skipped at the user's request.
  std::vector<LongGap> long_gaps;  // The longest one of each trace, if it is longer than kLongGap.

  [[nodiscard]] std::span<const std::uint32_t> blocks_of(const Request& request) const {
    return std::span{block_ids}.subspan(request.first_block, request.block_count);
  }
  [[nodiscard]] core::Duration span() const {  // From the start of the window to the last arrival.
    return requests.empty() ? core::Duration{} : requests.back().arrival.time_since_epoch();
  }
};

}  // namespace penstock::workload
