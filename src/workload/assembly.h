// Shared steps of the transforms that build a workload from requests of others.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/result.h"
#include "workload/request.h"

namespace penstock::workload {

// Upper limit: 100 million requests take 4 GB.
inline constexpr std::uint64_t kRequestsMax = 100'000'000;

// Renumbers block ids into a range that is not much larger than their number, so that ids of several workloads can be
// concatenated in 32 bits. Dense ids stay unchanged; others are numbered in order of appearance.
struct CompactIds {
  std::vector<std::uint32_t> ids;  // One id for each of Workload::block_ids.
  std::uint64_t bound = 0;         // Exclusive upper bound of the ids.
};
[[nodiscard]] CompactIds compact_ids(const Workload& workload);

// Tokens that a request's ids cover. The last block may be truncated by the end of the prompt, or by the end of the
// output if the ids cover it.
[[nodiscard]] std::uint64_t named_tokens(const Request& request, std::uint32_t block_tokens);

// Number of blocks that hold `tokens` tokens; the last one may be partial.
[[nodiscard]] constexpr std::uint64_t blocks_for(std::uint64_t tokens, std::uint32_t block_tokens) {
  return (tokens + block_tokens - 1) / block_tokens;
}

// One more than the largest session; 0 without sessions.
[[nodiscard]] std::uint64_t session_bound(const Workload& workload);

// Returns an error if requests, block ids or sessions exceed the limits of a workload.
[[nodiscard]] core::Result<void> check_size(const std::string& where, std::uint64_t requests, std::uint64_t blocks,
                                            std::uint64_t id_bound, std::uint64_t session_bound);

// Appends `request` with the block ids `ids`, each increased by `id_offset`.
void append(Workload& out, Request request, std::span<const std::uint32_t> ids, std::uint64_t id_offset);

// Sorts by arrival; requests with equal arrivals keep their order.
void sort_by_arrival(Workload& workload);

// Appends the waits whose two requests are kept. `places` has the place of each request in `out`, kNoPlace if it is
// left out: a request whose previous one is left out arrives at its time.
inline constexpr std::uint32_t kNoPlace = UINT32_MAX;
void append_waits(Workload& out, std::span<const Wait> waits, std::span<const std::uint32_t> places);

}  // namespace penstock::workload
