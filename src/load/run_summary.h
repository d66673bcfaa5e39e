// What is known of a run beside its tally, for all that tell of it.
#pragma once

#include <string>
#include <vector>

#include "core/time.h"
#include "load/expectation.h"
#include "load/tally.h"

namespace penstock::load {

struct RunSummary {
  std::string target, model;  // "http://127.0.0.1:8000", "penstock-sim"
  std::string traffic;        // "open loop, 5 requests/s, poisson"
  std::string command;        // that runs it again, without keys
  core::Duration elapsed{};
  double cpu_s = 0.0;  // of the generator
  std::uint32_t max_in_flight = 0;
  bool interrupted = false;
  std::vector<Verdict> verdicts;
};

// Shares above this make the figures the generator's rather than the server's.
inline constexpr double kBusyShare = 0.8;
inline constexpr double kLateMs = 10.0;  // of sends, p99

[[nodiscard]] inline double cpu_share(const RunSummary& run) {
  const double elapsed_s = core::to_seconds(run.elapsed);
  return elapsed_s > 0.0 ? run.cpu_s / elapsed_s : 0.0;
}
// Whether the generator itself was the bottleneck, as far as can be told.
[[nodiscard]] inline bool is_bottleneck(const RunSummary& run, const Tally& tally) {
  return cpu_share(run) > kBusyShare || tally.lateness_ms().quantile(0.99) > kLateMs;
}

}  // namespace penstock::load
