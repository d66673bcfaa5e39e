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
  std::string work;  // "mooncake", "saturated"
  routing::Strategy router = routing::Strategy::kKv;
  std::uint32_t replicas = 1;
  double ttft_mean_ms = 0.0, itl_mean_ms = 0.0, ttft_p99_ms = 0.0;
  double prefix_hit_ratio = 0.0;
  double slo_attainment = -1.0;  // below 0: not known
  double requests_per_s = 0.0;   // Speed of its simulation.
  double requests_per_cpu_s = 0.0;
};

// CSV with a header; errors are "name:line: …".
[[nodiscard]] core::Result<std::vector<PeerRun>> parse_peer_runs(std::string_view name, std::string_view csv);

// What the runs of one name compute. `options` holds one pool; its number of replicas and the router are replaced by
// those of a run.
struct PeerWork {
  std::string name;
  workload::Workload workload;
  simulation::RunOptions options;
};

// A section in Markdown: for each run of one of the works, theirs, ours and the difference.
[[nodiscard]] core::Result<std::string> compare_with_peer(const std::vector<PeerWork>& works,
                                                          const std::vector<PeerRun>& peer);

// Returns the part of an earlier page from the line "## heading" to the next such line, without its last line break. An
// error names the page.
[[nodiscard]] core::Result<std::string> section_of(std::string_view page, std::string_view where,
                                                   std::string_view heading);

}  // namespace penstock::fidelity
