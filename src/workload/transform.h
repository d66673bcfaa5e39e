// Transforms of workloads.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/result.h"
#include "core/time.h"
#include "workload/request.h"

namespace penstock::workload {

// All transforms keep requests sorted by arrival and are linear in requests and block ids (scale_rate and merge also
// sort). Errors name the workload: an empty result, more than 100 million requests or 2^32 - 1 block ids, and the
// errors listed below.

// Requests that arrive in [from, to), with arrivals relative to `from`; tenants, sessions and ids are unchanged. An
// empty window, or one that starts before the workload, is an error.
[[nodiscard]] core::Result<Workload> crop_window(const Workload& workload, core::Duration from,
                                                 std::optional<core::Duration> to);

struct RateScale {
  double factor = 1.0;
  // Longest time by which a copy is moved. Empty: see spread_of().
  std::optional<core::Duration> spread;
};

// The given spread, or 30 s and at most 1 % of the span: enough that arrivals of copies do not coincide, and little
// enough to preserve hours of the day and bursts of minutes. The minutes of a thin trace fluctuate because few users
// send it; a spread of minutes averages that out, as the traffic of many users does.
[[nodiscard]] core::Duration spread_of(const RateScale& scale, core::Duration span);

// The same traffic at `factor` times the rate, as with that many times the users: whole copies are superposed. The
// first copy is unchanged; each other copy is shifted by a random time of up to spread_of() in either direction,
// wrapping around the span, and has separate prefixes, sessions and blocks; tenants stay the same. A fraction of a copy
// is a random share of its sessions. Requests without a session are grouped by shared prefix, using the longest groups
// with at most 1 % of all requests, so that prefix sharing is preserved; others are drawn individually. Gaps are never
// compressed: bursts longer than the spread are preserved, and shorter ones average out as between independent users.
// The factor is in (0, 1000], the spread at most half of the span; equal seeds give equal workloads; factor 1 changes
// nothing.
[[nodiscard]] core::Result<Workload> scale_rate(const Workload& workload, const RateScale& scale, std::uint64_t seed);
[[nodiscard]] inline core::Result<Workload> scale_rate(const Workload& workload, double factor, std::uint64_t seed) {
  return scale_rate(workload, RateScale{factor, {}}, seed);
}

// Makes a share of the requests class batch: sessions whose number, and requests without a session whose position, has
// a hash below that share. A larger share contains a smaller one. Other requests keep their class.
void mark_batch(Workload& workload, double share);
// Makes all requests of these tenants class batch.
void mark_batch(Workload& workload, std::span<const std::string> tenants);

// Superposes all workloads: tenants are joined by name, prefixes and sessions stay separate. Block sizes must agree,
// except for workloads without block ids. Requests with equal arrivals keep the order of their workloads.
[[nodiscard]] core::Result<Workload> merge(const std::vector<Workload>& workloads);

// Converts block ids to another block size. One size must divide the other. With smaller blocks, each part of a block
// gets an id, as far as the prompt (or the output, if ids cover it) fills it. With larger blocks, an id represents the
// last of the blocks that it covers, and a partial tail gets an id only at the end of a request, different from that of
// a full block. The same size returns a copy; a workload without ids accepts any size.
[[nodiscard]] core::Result<Workload> reblock(const Workload& workload, std::uint32_t block_tokens);

}  // namespace penstock::workload
