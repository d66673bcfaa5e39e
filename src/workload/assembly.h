// What every transform needs to build one workload from requests of others.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/result.h"
#include "workload/request.h"

namespace penstock::workload {

// More is refused: 100 million requests are 4 GB.
inline constexpr std::uint64_t kRequestsMax = 100'000'000;

// Block ids below a bound that is not far above their number, so that ids of several workloads can be put one after the
// other in 32 bits. Ids that are dense already stay what they are; others are numbered in the order they appear.
struct CompactIds {
  std::vector<std::uint32_t> ids;  // one for each of Workload::block_ids
  std::uint64_t bound = 0;         // all are below it
};
[[nodiscard]] CompactIds compact_ids(const Workload& workload);

// Tokens that a request's ids name: its last block may be cut short by the end of the prompt or, where the ids go on
// over the output, by the end of the answer.
[[nodiscard]] std::uint64_t named_tokens(const Request& request, std::uint32_t block_tokens);

// Blocks that hold so many tokens, the last of them perhaps in part.
[[nodiscard]] constexpr std::uint64_t blocks_for(std::uint64_t tokens, std::uint32_t block_tokens) {
  return (tokens + block_tokens - 1) / block_tokens;
}

// One past the largest session; 0 where there are none.
[[nodiscard]] std::uint64_t session_bound(const Workload& workload);

// An error where requests, block ids or sessions are more than a workload can hold.
[[nodiscard]] core::Result<void> check_size(const std::string& where, std::uint64_t requests, std::uint64_t blocks,
                                            std::uint64_t id_bound, std::uint64_t session_bound);

// Puts `request`, whose block ids are `ids`, each raised by `id_offset`, at the end of `out`.
void append(Workload& out, Request request, std::span<const std::uint32_t> ids, std::uint64_t id_offset);

// By arrival; requests that arrive together stay in the order they were appended in.
void sort_by_arrival(std::vector<Request>& requests);

}  // namespace penstock::workload
