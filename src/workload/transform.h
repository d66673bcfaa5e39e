// Workloads out of workloads.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/result.h"
#include "core/time.h"
#include "workload/request.h"

namespace penstock::workload {

// Requests that arrive in [from, to), their arrivals counted from `from`. An empty window is an error.
[[nodiscard]] core::Result<Workload> cut_window(const Workload& workload, core::Duration from,
                                                std::optional<core::Duration> to);

// The same traffic at `factor` times the rate, as a service with that many times the users would see it: whole copies are
// superposed, each delayed by a jitter of its own, with prefixes, sessions and blocks of its own; a fraction of a copy is
// a random share of its sessions (requests, where there are none), so that bursts stay bursts. Gaps are never squeezed.
// Factor in (0, 1000]; equal seeds give equal workloads; factor 1 changes nothing.
[[nodiscard]] core::Result<Workload> scale_rate(const Workload& workload, double factor, std::uint64_t seed);

// All of them at once: tenants are joined by name, prefixes and sessions kept apart. Block sizes must agree.
[[nodiscard]] core::Result<Workload> merge(const std::vector<Workload>& workloads);

// The same prefixes named by blocks of another size. One size must divide the other. In smaller blocks each part of a
// block gets an id; in larger ones an id stands for the last of the blocks it covers, and a tail that does not fill one
// is named only where it ends the request.
[[nodiscard]] core::Result<Workload> reblock(const Workload& workload, std::uint32_t block_tokens);

}  // namespace penstock::workload
