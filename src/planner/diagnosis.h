// Diagnoses bad latency before anything is scaled: the violated objective, the affected requests, the phase of a
// request and the cause, with evidence.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/state_archive.h"
#include "core/time.h"
#include "planner/policy.h"
#include "planner/pool_history.h"
#include "signals/observation.h"
#include "signals/slo.h"

namespace penstock::planner {

// Names of both enums are stable: logs, metrics and reports print them.
enum class Symptom : std::uint8_t { kNone, kTtft, kItl, kBoth, kUnknown };

// The phases of a request, in order, in which its time can be lost.
enum class Phase : std::uint8_t { kNone, kAdmission, kReplicaWait, kQueue, kPrefill, kTransfer, kDecode };

[[nodiscard]] const char* to_string(Symptom symptom);  // Returns "none", "ttft", "itl", "both", "unknown".
[[nodiscard]] const char* to_string(Phase phase);      // Returns "none", "admission", "replica_wait", "queue", ….

// Returns what the planner does about a cause and what an operator can do, as a clause without a full stop.
[[nodiscard]] const char* advice(Cause cause);

struct DiagnosisOptions {
  std::uint64_t samples_min = 10;          // Minimum number of first tokens or completions in a minute for a p95.
  std::uint64_t segment_samples_min = 20;  // The same for a segment; higher, because there are many segments.
  core::Duration sample_age = std::chrono::seconds{30};  // Age beyond which a sample of an engine is ignored.
  double shed_share = 0.05;                              // Share of refused arrivals from which admission is the cause.
  double starting_share = 0.2;  // Share of the last minute's replicas that were still starting.
  double preemptions_per_request = 0.1;
  double kv_blocked_share = 0.5;  // Share of engines with a queue whose free KV does not fit the first queued request.
  double hit_share_drop = 0.1;    // Decrease below the long-term hit share …
  double hit_share_kept = 0.75;   // … to less than this part of it.
  std::uint64_t long_term_tokens_min = 100'000;  // Minimum number of prompt tokens for a long-term hit share.
  double idle_share = 0.4;                       // Share of engines that are idle while others have a queue.
  double prefill_tokens_per_step = 512.0;  // Prompt tokens per decode step of an aggregated replica, on average …
  double computed_prompt = 512.0;          // … or uncached tokens of the mean prompt, if the gaps are uneven:
  double uneven_gaps = 1.3;         // The ratio of p95 to median. A large batch slows all requests, a prompt only some.
  double decode_batch_min = 8.0;    // Minimum number of running sequences that can make a step slow …
  double decode_kv_min = 0.5;       // … unless their KV, which each step reads, fills this share of the cache.
  double slow_client_share = 0.05;  // Share of completed answers that waited for their clients.
  double decode_queue_min = 1.0;    // Requests per decode replica that wait for their second token.
};

struct Finding {
  Symptom symptom = Symptom::kNone;  // kTtft, kItl, kBoth or kUnknown.
  Phase phase = Phase::kNone;
  Cause cause = Cause::kUnknown;
  std::uint32_t pool = 0;  // Index into the observation's pools.
  std::string pool_name;
  // "all", or the segment with the worst latency: "prompt tokens 16k-64k", "SLO segment chat, tenant acme".
  std::string segment;
  double severity = 0.0;  // p95 latency divided by its limit; 0 if it is not known.
  std::vector<Evidence> evidence;
  const char* unknown_because = "";  // Set for Cause::kUnknown.
};

struct Diagnosis {
  Symptom symptom = Symptom::kNone;  // Over all pools.
  std::vector<Finding> findings;     // Most severe first; empty if nothing is wrong.

  [[nodiscard]] Cause cause() const { return findings.empty() ? Cause::kNone : findings.front().cause; }
};

// Renders one line, such as "TTFT is bad in pool default for prompt tokens 16k-64k, in the engine queue: too many
// requests per replica (ttft_p95 5120 ms, …); the planner adds replicas …". Findings are joined with " | ". Without a
// finding the line is "latency meets the SLO".
[[nodiscard]] std::string sentence(const Finding& finding);
[[nodiscard]] std::string sentence(const Diagnosis& diagnosis);

// One instance per deployment; receives every observation in order of time. Remembers one minute of each pool and a
// long-term share of cache hits. Where segments have objectives of their own, requests are compared with their own
// objective, and the worst one is named with the lengths or the tenant that are late in it. A cause is named only if
// the observation proves it: without PoolObservation::detail, a late first token has the cause kUnknown, and so has any
// problem inside an engine whose telemetry is missing, late or contradictory. Deterministic; not thread-safe.
class Diagnoser {
 public:
  explicit Diagnoser(signals::SloPolicy slo, const DiagnosisOptions& options = {})
      : slo_(std::move(slo)), options_(options) {}

  [[nodiscard]] Diagnosis observe(const signals::Observation& observation);

  void archive(core::StateArchive& state) { state("diagnoser", histories_); }

 private:
  signals::SloPolicy slo_;
  DiagnosisOptions options_;
  std::vector<PoolHistory> histories_;  // Indexed by pool.
};

}  // namespace penstock::planner
