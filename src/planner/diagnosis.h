// Says what is wrong with latency before anything is scaled: which promise is broken, for whom, in which phase of a
// request, and why, with the numbers that say so.
#pragma once

#include <cstdint>
#include <string>
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

// Where in the life of a request the time is lost, in its order.
enum class Phase : std::uint8_t { kNone, kAdmission, kReplicaWait, kQueue, kPrefill, kTransfer, kDecode };

[[nodiscard]] const char* to_string(Symptom symptom);  // "none", "ttft", "itl", "both", "unknown"
[[nodiscard]] const char* to_string(Phase phase);      // "none", "admission", "replica_wait", "queue", …

// What the planner does about a cause, and what an operator can do that it cannot. A clause without a full stop.
[[nodiscard]] const char* advice(Cause cause);

struct DiagnosisOptions {
  std::uint64_t samples_min = 10;          // fewer first tokens or completions in a minute have no p95
  std::uint64_t segment_samples_min = 20;  // the same for a segment, of which there are many to be wrong about
  core::Duration sample_age = std::chrono::seconds{30};  // an older sample of an engine is as good as none
  double shed_share = 0.05;     // of the arrivals refused, from which on the door is the trouble
  double starting_share = 0.2;  // of the replicas of the last minute that were still starting
  double preemptions_per_request = 0.1;
  double kv_blocked_share = 0.5;                 // of the engines with a queue that have no KV for its head
  double hit_share_drop = 0.1;                   // of the prompt tokens, below the long-term share …
  double hit_share_kept = 0.75;                  // … and less than this part of it
  std::uint64_t long_term_tokens_min = 100'000;  // prompts behind a long-term share
  double idle_share = 0.4;                       // of the engines, idle while others have a queue
  double prefill_tokens_per_step = 512.0;        // beside the decodes of an aggregated replica, on average …
  double computed_prompt = 512.0;  // … or now and then: uncached tokens of the mean prompt, where gaps are uneven:
  double uneven_gaps = 1.3;        // p95 over the median of all. A large batch slows everybody alike, a prompt few
  double decode_batch_min = 8.0;   // sequences running on a replica; fewer make no step slow …
  double decode_kv_min = 0.5;      // … unless their KV, read in each step, fills so much of the cache
  double decode_queue_min = 1.0;   // requests waiting on a decode replica for their second token
};

struct Finding {
  Symptom symptom = Symptom::kNone;  // kTtft, kItl, kBoth or kUnknown
  Phase phase = Phase::kNone;
  Cause cause = Cause::kUnknown;
  std::uint32_t pool = 0;  // index into the observation's
  std::string pool_name;
  std::string segment;    // "all", or whose latency is worst: "prompt tokens 16k-64k", "tenant acme"
  double severity = 0.0;  // p95 latency over its limit; 0 when nobody knows
  std::vector<Evidence> evidence;
  const char* unknown_because = "";  // with Cause::kUnknown
};

struct Diagnosis {
  Symptom symptom = Symptom::kNone;  // over all pools
  std::vector<Finding> findings;     // gravest first; empty when nothing is wrong

  [[nodiscard]] Cause cause() const { return findings.empty() ? Cause::kNone : findings.front().cause; }
};

// Renders one line, such as "TTFT is bad in pool default for prompt tokens 16k-64k, in the engine queue: too many requests
// per replica (ttft_p95 5120 ms, …); the planner adds replicas …". Findings are joined with " | ". Without a finding the
// line is "latency meets the SLO".
[[nodiscard]] std::string sentence(const Finding& finding);
[[nodiscard]] std::string sentence(const Diagnosis& diagnosis);

// One for each deployment, fed with every observation in order of time; what it remembers is a minute of each pool and a
// long-term share of cache hits. It names a cause only where the observation has what proves it: without
// PoolObservation::detail a late first token is kUnknown, and so is anything inside an engine that is not heard of, is
// heard late, or contradicts itself. Deterministic; not thread-safe.
class Diagnoser {
 public:
  explicit Diagnoser(const signals::SloTarget& slo, const DiagnosisOptions& options = {})
      : slo_(slo), options_(options) {}

  [[nodiscard]] Diagnosis observe(const signals::Observation& observation);

  void archive(core::StateArchive& state) { state("diagnoser", histories_); }

 private:
  signals::SloTarget slo_;
  DiagnosisOptions options_;
  std::vector<PoolHistory> histories_;  // by pool
};

}  // namespace penstock::planner
