// Which of the blocks of a workload more than one request has.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "workload/request.h"

namespace penstock::workload {

// Returns, by request, the number of its leading blocks up to the last one whose id another request has, too. No cache
// hit depends on the blocks behind them, so that a simulation may leave out their ids as long as every request is sent
// to an engine once. A preempted request computes these blocks anew, where an engine may find some of its own: a fleet
// of one replica that is overloaded by Mooncake's trace ends 0.003 % later. O(block ids), or O(n log n) if the ids are
// sparse.
// `cached`: blocks of the workload that caches hold from the start; they count like those of further requests.
[[nodiscard]] std::vector<std::uint32_t> shared_block_counts(
    const Workload& workload, std::span<const std::span<const std::uint32_t>> cached = {});

}  // namespace penstock::workload
