// Metadata of a run for its outputs.
#pragma once

#include <string>
#include <vector>

#include "core/time.h"
#include "load/expectation.h"
#include "load/tally.h"

namespace penstock::load {

struct RunSummary {
  std::string target, model;  // For example "http://127.0.0.1:8000" and "penstock-sim".
  std::string traffic;        // For example "open loop, 5 requests/s, poisson".
  std::string command;        // Command that repeats the run, without keys.
  core::Duration elapsed{};
  double cpu_s = 0.0;  // CPU time of the generator.
  std::uint32_t max_in_flight = 0;
  bool interrupted = false;
  std::vector<Verdict> verdicts;
};

// Above these limits the generator, not the server, determines the results.
inline constexpr double kBusyShare = 0.8;
inline constexpr double kLateMs = 10.0;  // p99 of the lateness of sends.

[[nodiscard]] inline double cpu_share(const RunSummary& run) {
  const double elapsed_s = core::to_seconds(run.elapsed);
  return elapsed_s > 0.0 ? run.cpu_s / elapsed_s : 0.0;
}
// Returns true if the generator itself was probably the bottleneck.
[[nodiscard]] inline bool is_bottleneck(const RunSummary& run, const Tally& tally) {
  return cpu_share(run) > kBusyShare || tally.lateness_ms().quantile(0.99) > kLateMs;
}

}  // namespace penstock::load
