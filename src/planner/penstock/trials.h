// Interface for simulating fleets on recent traffic. The caller of the planner provides the simulator, so that the
// planner does not depend on it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/state_archive.h"
#include "core/time.h"
#include "signals/observation.h"

namespace penstock::planner {

// A request that decodes when a trial begins.
struct RunningRequest {
  std::uint32_t context_tokens = 0;  // Of its prompt and its output so far; its KV is computed.
  std::uint32_t output_tokens = 0;   // That are left.
  std::span<const std::uint32_t> block_ids;
  std::uint8_t target = 0, pool = 0;  // As in RecentRequest, and so is the next one.
  std::uint32_t expected_output_tokens = 0;
};

struct TrialTraffic {
  std::span<const signals::RecentRequest> requests{};  // In order of arrival, all with an output length.
  double rate_factor = 1.0;                            // Multiple of the recorded rate.
  core::Instant judged_from = core::kStart;            // Earlier arrivals are served but not counted,
  core::Instant judged_until = core::kNever;           // and so are arrivals at this time or later.
  std::span<const RunningRequest> running{};           // Decode when the trial begins, before judged_from.
  double running_factor = 1.0;                         // Multiple of the running requests.
  // Requests whose prompts were computed before it begins, in order of arrival: caches hold what they have room for.
  std::span<const signals::RecentRequest> earlier{};
  // Requests that arrived earlier wait when the trial begins. Empty: it begins with the first arrival.
  std::optional<core::Instant> from{};
};

// Number of requests, and of those that met their objective. A request may represent several.
struct TrialCounts {
  double requests = 0.0, met = 0.0;
  [[nodiscard]] double attainment() const { return requests > 0.0 ? met / requests : 1.0; }
  void archive(core::StateArchive& state) { state.values_of(requests, met); }
};

struct TrialOutcome {
  TrialCounts all, ttft, itl;        // Both objectives, TTFT only, and ITL only.
  std::vector<TrialCounts> targets;  // By RecentRequest::target; empty if there is only the general objective.

  TrialOutcome& operator+=(const TrialOutcome& more);
  [[nodiscard]] TrialOutcome times(double factor) const;
  void archive(core::StateArchive& state) { state.values_of(all, ttft, itl, targets); }
};

// What was learned of the engines of a pool, compared with their profile. An empty figure keeps that of the profile.
struct EngineCorrection {
  double step_time = 1.0;                      // Multiple of the profile's step times.
  std::optional<std::uint32_t> max_sequences;  // Sequences that run at once.
  std::optional<std::uint64_t> kv_tokens;      // Capacity of the KV cache.

  void archive(core::StateArchive& state) { state.values_of(step_time, max_sequences, kv_tokens); }

  friend bool operator==(const EngineCorrection&, const EngineCorrection&) = default;
};

// Equal traffic and fleets give equal outcomes. Not thread-safe.
class FleetTrials {
 public:
  virtual ~FleetTrials() = default;
  // Traffic of the following attempts.
  virtual void load(const TrialTraffic& traffic) = 0;
  // Simulates a fleet with these replicas per pool, ready from the start.
  [[nodiscard]] virtual TrialOutcome attempt(std::span<const std::uint32_t> replicas) = 0;
  // Corrects the engines of each pool from now on.
  virtual void correct(std::span<const EngineCorrection> engines) = 0;
};

}  // namespace penstock::planner
