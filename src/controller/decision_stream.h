// Decisions of a policy on observations that another program makes, one line of JSON after the other.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "connect/observation_line.h"
#include "controller/traffic_recorder.h"
#include "core/result.h"
#include "core/time.h"
#include "decision/decision_loop.h"
#include "decision/policy.h"
#include "signals/observation.h"
#include "signals/sanitize.h"
#include "signals/slo.h"

namespace penstock::controller {

struct DecisionStreamOptions {
  std::vector<signals::Pool> pools;
  signals::SloPolicy slo;
  std::string model;  // Requests for other models are left out; empty for all models.
  // Usual time between observations, if it is longer than the policy's interval. After ten times as much the clock has
  // jumped.
  core::Duration interval = std::chrono::seconds{5};
  std::uint32_t block_tokens = 512;  // Of the blocks of a prompt.
};

// The clock is that of the observations. Equal lines give equal answers. Not thread-safe.
class DecisionStream {
 public:
  struct Answer {
    // Lines: one record of a decision log for each pool, or one error object.
    std::string text;
    bool is_error = false;
    std::vector<std::string> warnings;  // Figures that contradict each other and are ignored.
  };

  // `policy` must outlive the stream.
  DecisionStream(decision::Policy& policy, DecisionStreamOptions options);

  // Answers the line with this number, from 1. A line that cannot be used changes nothing.
  [[nodiscard]] Answer answer(std::string_view line, std::uint64_t number);
  // The answer to a line that was not read.
  [[nodiscard]] static Answer refuse(const core::Error& error, std::uint64_t number);

 private:
  struct KnownReplica {
    std::uint32_t number = 0;
    signals::ReplicaState state = signals::ReplicaState::kReady;
    core::Instant since;
  };
  struct PoolState {
    std::optional<std::uint32_t> target;         // As decided last; before that, what the first line has.
    std::uint32_t asleep_target = 0;             // The same; with `target` only.
    std::map<std::string, KnownReplica> listed;  // By id.
    std::vector<KnownReplica> counted;  // In the order ready, draining, starting, asleep, if only counts are known.
  };
  struct KnownRequest {
    std::uint64_t number = 0;
    core::Instant arrival;
    bool answered = false, ended = false;
  };

  [[nodiscard]] core::Result<void> check(const connect::ObservationLine& line) const;
  [[nodiscard]] core::Result<void> check_requests(const std::vector<connect::ObservedRequest>& requests) const;
  [[nodiscard]] const connect::ObservedPool& pool_of(const connect::ObservationLine& line, std::size_t index) const;
  void take_requests(const std::vector<connect::ObservedRequest>& requests, core::Instant now);
  void add_items(const connect::ObservedRequest& request, std::vector<TrafficItem>& items);
  void forget_requests(core::Instant now);
  [[nodiscard]] signals::Observation observe(const connect::ObservationLine& line);
  void fill_replicas(const connect::ObservedPool& from, PoolState& state, signals::PoolObservation& pool,
                     core::Instant now);
  void count_replicas(PoolState& state, const signals::PoolObservation& pool, core::Instant now);
  [[nodiscard]] bool is_due(core::Instant now) const;
  [[nodiscard]] std::vector<decision::DecisionRecord> decide(signals::Observation& seen, Answer& answer);
  [[nodiscard]] std::vector<decision::DecisionRecord> decision_in_force(const signals::Observation& seen) const;

  decision::Policy* policy_;
  DecisionStreamOptions options_;
  core::Duration memory_;
  decision::DecisionLoop loop_;
  signals::Sanitizer sanitizer_;
  TrafficRecorder traffic_;
  bool knows_requests_ = false;
  std::vector<PoolState> pools_;
  std::unordered_map<std::string, KnownRequest> requests_;  // By id.
  std::uint64_t next_request_ = 0;
  std::uint32_t next_replica_ = 0;
  std::optional<std::pair<core::Instant, std::uint64_t>> last_;  // Time and number of the last usable line.
  std::optional<core::Instant> decided_at_;
  std::vector<decision::DecisionRecord> decided_;
};

}  // namespace penstock::controller
