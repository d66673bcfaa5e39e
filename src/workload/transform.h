// Workloads out of workloads.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/result.h"
#include "core/time.h"
#include "workload/request.h"

namespace penstock::workload {

// All of these keep requests sorted by arrival and take time in proportion to requests and block ids (scale_rate and
// merge also sort). Errors name the workload: an empty result, more requests (100 million) or block ids (2^32 - 1)
// than one can hold, and what each says below.

// Requests that arrive in [from, to), their arrivals counted from `from`; tenants, sessions and ids stay what they
// were. An empty window, or one that begins before the workload, is an error.
[[nodiscard]] core::Result<Workload> cut_window(const Workload& workload, core::Duration from,
                                                std::optional<core::Duration> to);

// The same traffic at `factor` times the rate, as a service with that many times the users would see it: whole copies
// are superposed, the first as it was, each other one moved by a jitter of its own (up to 30 s or 1 % of the span to
// either side, whichever is less; what leaves the span at one end comes back at the other), with prefixes, sessions
// and blocks of its own; tenants stay the same. A fraction of a copy is a random share of its sessions. Requests
// without one go together with those they share a prefix with, by the longest group of at most 1 % of all, so that
// prefixes stay as shared as they were; others go alone. Gaps are never squeezed: bursts of minutes stay bursts, and
// what is shorter than the jitter averages out as between independent users. Factor in (0, 1000]; equal seeds give
// equal workloads; factor 1 changes nothing.
[[nodiscard]] core::Result<Workload> scale_rate(const Workload& workload, double factor, std::uint64_t seed);

// All of them at once: tenants are joined by name, prefixes and sessions kept apart. Block sizes must agree; workloads
// without block ids have no say in it. Requests that arrive together stay in the order of their workloads.
[[nodiscard]] core::Result<Workload> merge(const std::vector<Workload>& workloads);

// The same prefixes named by blocks of another size. One size must divide the other. In smaller blocks each part of a
// block gets an id, as far as the prompt (the answer, where ids go on over it) fills it; in larger ones an id stands
// for the last of the blocks it covers, and a tail that does not fill one is named only where it ends the request, and
// never like a full one. The same size returns a copy; a workload without ids takes any size.
[[nodiscard]] core::Result<Workload> reblock(const Workload& workload, std::uint32_t block_tokens);

}  // namespace penstock::workload
