// How near the simulated fleet comes to NVIDIA Dynamo's replay, run against run.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"
#include "simulation/run.h"
#include "workload/request.h"

namespace penstock::fidelity {

// One run of the peer, as bench/dynamo_replay.py writes it.
struct PeerRun {
  std::string work;  // "mooncake", "synthetic"
  routing::Strategy router = routing::Strategy::kKv;
  std::uint32_t replicas = 1;
  double ttft_mean_ms = 0.0, itl_mean_ms = 0.0, ttft_p99_ms = 0.0;
  double prefix_hit_ratio = 0.0;
  double slo_attainment = -1.0;  // below 0: not known
  double requests_per_s = 0.0;   // speed of its simulation
};

// CSV with a header; errors are "name:line: …".
[[nodiscard]] core::Result<std::vector<PeerRun>> parse_peer_runs(std::string_view name, std::string_view csv);

// A section in Markdown: for each run of "mooncake" with a known attainment, theirs, ours and the difference. `options`
// holds one pool; its number of replicas and the router are replaced by those of the run.
[[nodiscard]] core::Result<std::string> compare_with_peer(const workload::Workload& workload,
                                                          const simulation::RunOptions& options,
                                                          const std::vector<PeerRun>& peer);

}  // namespace penstock::fidelity
