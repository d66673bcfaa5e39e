// The life of every request: arrival, dispatcher, engines, transfer of KV, end.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/sketch.h"
#include "decision/run_result.h"
#include "dispatch/dispatcher.h"
#include "signals/segment_meter.h"
#include "simulation/fleet.h"
#include "simulation/gateway_options.h"
#include "simulation/recorder.h"
#include "simulation/timeline.h"

namespace penstock::simulation {

// Requests go through the dispatcher of the gateway. Beside it stands what a client and a request handler do: they send
// the request to the replica of a grant, relay what the engine computes, try again where a replica fails before the
// first token, and report the end.
class RequestPath final : public dispatch::GrantListener {
 public:
  // `memory`: for how long the policy wants to see requests. `segments`: whether it wants to see segments.
  RequestPath(const workload::Workload& workload, const RunOptions& options, const Gateway& gateway,
              dispatch::Dispatcher& dispatcher, Timeline& timeline, Fleet& fleet, Recorder& recorder,
              core::Duration memory, bool segments);

  void arrive(std::uint32_t request);
  // The engine of a replica has come to its next step. Returns whether a request moved on.
  bool advance_engine(std::uint32_t replica);
  // Returns the replica that the KV left; none if that had crashed.
  std::optional<std::uint32_t> finish_transfer(std::uint32_t transfer);
  // The engine of the replica is gone, with the requests that it had.
  void lose(std::span<const engine::OpenRequest> open, std::uint32_t pool);
  // A replica takes traffic now: requests that wait for a decode replica may go on.
  void replica_admitted();
  // The dispatcher looks at what waits.
  void tick();
  void give_up_open();

  void deliver(dispatch::Ticket ticket, const dispatch::Grant& grant) override;
  void deliver(dispatch::Ticket ticket, const dispatch::Refusal& refusal) override;

  // What the policy sees. Requests that a limit of their tenant or class holds up are no work for replicas.
  [[nodiscard]] std::span<const signals::RecentRequest> recent();
  [[nodiscard]] std::uint32_t waiting() const {
    return static_cast<std::uint32_t>(waiting_.size() + undecoded_.size() + lost_.size());
  }
  [[nodiscard]] std::uint32_t unrouted(std::uint32_t pool) const;
  [[nodiscard]] signals::PoolDetail detail_of(std::uint32_t pool) const;  // For a policy that requests segments.
  [[nodiscard]] bool has_segments() const { return !segments_.empty(); }

  void summarize(decision::RunResult& result) const;
  // A sentence with the first invariant of the run that does not hold; empty: all do. All requests have ended.
  [[nodiscard]] std::string final_violation() const;

 private:
  static constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();
  struct Flight {
    dispatch::Ticket ticket = 0;
    std::uint32_t replica = kNone;
    std::uint32_t transfer = kNone;  // Of its KV, while the transfer is in progress.
    std::uint32_t cached_tokens = 0;
    std::uint32_t output_tokens = 0;  // as the gateway granted them
    std::uint32_t recent = kNone;     // its place among the requests that the policy sees
  };
  struct Passage {            // when a request went from one part of its time to the next
    core::Instant submitted;  // to the engine that computed its prompt
    core::Instant admitted, prefilled;
  };

  [[nodiscard]] bool fits(std::uint32_t request) const;
  [[nodiscard]] std::span<const std::uint64_t> keys_of(const workload::Request& shape);
  void see(std::uint32_t request);
  void submit(std::uint32_t request, const dispatch::Grant& grant);
  void publish_cache(Replica& replica);
  void on_first_token(const engine::EngineEvent& event, const Replica& replica);
  void on_completed(const engine::EngineEvent& event, Replica& replica);
  void answer(std::uint32_t request);
  void start_transfer(std::uint32_t request, Replica& source);
  void decode(std::uint32_t request);
  void try_again(std::uint32_t request);
  void complete(std::uint32_t request, std::uint32_t pool);
  void fail(std::uint32_t request, std::uint32_t pool, Outcome outcome, std::uint32_t output_tokens);
  void refuse(std::uint32_t request);
  void schedule_tick();
  [[nodiscard]] signals::RequestTraits traits_of(std::uint32_t request) const;
  [[nodiscard]] signals::FirstTokenTimes times_of(std::uint32_t request) const;
  [[nodiscard]] engine::EngineRequest engine_request(std::uint32_t request, signals::Role role) const;

  const workload::Workload& workload_;
  const RunOptions& options_;
  const Gateway& gateway_;
  dispatch::Dispatcher& dispatcher_;
  Timeline& timeline_;
  Fleet& fleet_;
  Recorder& recorder_;
  core::Duration memory_;
  std::uint32_t entry_pool_ = 0;
  std::optional<std::uint32_t> decode_pool_;

  std::vector<Flight> flights_;                                  // by request
  std::unordered_map<dispatch::Ticket, std::uint32_t> waiting_;  // the requests of tickets that wait
  core::QuantileSketch waits_ms_;                                // Waits of requests that were granted after queueing.
  std::vector<std::uint32_t> undecoded_;                         // requests whose KV waits for a decode replica
  std::vector<std::uint32_t> lost_;  // requests whose replica crashed, and that no other could take
  bool tick_pending_ = false;
  std::uint64_t delivered_tokens_ = 0;
  std::vector<std::uint32_t> transfers_;  // the request of each, in the order of their starts
  std::vector<signals::RecentRequest> recent_;
  std::size_t recent_from_ = 0;
  std::vector<signals::SegmentMeter> segments_;  // by pool, if the policy wants them …
  std::vector<Passage> passages_;                // … and then by request
  std::vector<engine::EngineEvent> events_;
  std::vector<std::uint64_t> keys_;
};

}  // namespace penstock::simulation
