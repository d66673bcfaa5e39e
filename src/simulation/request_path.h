// The life of every request: arrival, dispatcher, engines, transfer of KV, end.
#pragma once

#include <cstdint>
#include <deque>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/random.h"
#include "core/sketch.h"
#include "decision/run_result.h"
#include "dispatch/dispatcher.h"
#include "simulation/cache_feed.h"
#include "simulation/fleet.h"
#include "simulation/gateway_options.h"
#include "simulation/gateway_totals.h"
#include "simulation/ledger_memory.h"
#include "simulation/recorder.h"
#include "simulation/timeline.h"
#include "simulation/traffic_view.h"

namespace penstock::simulation {

// What the gateway does with the requests of a replica that answers nothing.
struct SilentVisit {
  bool tries_again = false;  // Requests without a first token try another replica, as far as they may.
  bool cuts = false;         // Streams are cut.
};

// Requests go through the dispatcher of the gateway. This class does what a client and a request handler do: it sends
// the request to the replica of a grant, relays what the engine computes, tries again where a replica fails before the
// first token, ends what takes too long, and reports the end.
class RequestPath final : public dispatch::GrantListener {
 public:
  RequestPath(const workload::Workload& workload, const RunOptions& options, const Gateway& gateway,
              dispatch::Dispatcher& dispatcher, Timeline& timeline, Fleet& fleet, Recorder& recorder,
              TrafficView& view);

  void arrive(std::uint32_t request);
  // The engine of a replica has come to its next step.
  void advance_engine(std::uint32_t replica);
  // Returns the replica that the KV left; none if that had crashed.
  std::optional<std::uint32_t> finish_transfer(std::uint32_t transfer);
  // The engine of the replica is gone, with the requests that it had.
  void lose(std::span<const engine::OpenRequest> open, std::uint32_t pool);
  // The replica was silent for as long as a stream may be: the streams that it had begun are cut.
  void visit_silent(Replica& replica, const SilentVisit& visit);
  // A replica takes traffic now: requests that wait for a decode replica may go on.
  void replica_admitted();
  // The dispatcher looks at what waits.
  void tick();
  // Events of the timeline.
  void client_leaves(std::uint32_t request) { leave(request, Outcome::kCancelled); }
  void out_of_time(std::uint32_t request);
  void end_late_attempts();
  void deliver_cache_events() { cache_feed_.deliver(); }
  void give_up_open();

  // The gateway stops until `until`: every request is cut. Clients without a first token send theirs again then. The
  // caller makes a new dispatcher, and calls gateway_started() at that time.
  void gateway_stopped(core::Instant until);
  void gateway_started();

  void deliver(dispatch::Ticket ticket, const dispatch::Grant& grant) override;
  void deliver(dispatch::Ticket ticket, const dispatch::Refusal& refusal) override;

  // Without requests that a limit of their tenant or class holds up: they are no work for replicas.
  [[nodiscard]] std::uint32_t unrouted(std::uint32_t pool) const;
  [[nodiscard]] std::optional<core::Instant> oldest_unrouted(std::uint32_t pool) const;
  [[nodiscard]] std::uint32_t waiting() const {
    return static_cast<std::uint32_t>(waiting_.size() + undecoded_.size() + lost_.size());
  }

  // `unscored`: the totals that are left out.
  void summarize(decision::RunResult& result, const GatewayTotals& unscored) const;
  [[nodiscard]] GatewayTotals gateway_totals() const { return before_.with(dispatcher_, timeline_.now); }
  // A sentence with the first invariant of the run that does not hold; empty: all do. All requests have ended.
  // `ledger` is null if it was not kept.
  [[nodiscard]] std::string final_violation(const LedgerMemory* ledger) const;

 private:
  static constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();
  struct Flight {
    dispatch::Ticket ticket = 0;
    std::uint32_t replica = kNone, transfer = kNone;  // `transfer`: of its KV, while it is in progress.
    std::uint32_t input_tokens = 0;                   // Of the prompt as the gateway sent it.
    std::uint32_t cached_tokens = 0;
    std::uint32_t output_tokens = 0;  // As the gateway granted them.
    // `undelivered`: tokens of a prefill replica that the client does not have yet.
    std::uint32_t attempts = 0, undelivered = 0;
  };
  struct AttemptTimer {
    core::Instant at;
    std::uint32_t request = 0, attempt = 0;
  };

  [[nodiscard]] bool is_open(std::uint32_t request) const { return recorder_.outcome(request) == Outcome::kOpen; }
  void send(std::uint32_t request);
  void submit(std::uint32_t request, const dispatch::Grant& grant);
  void start_attempt_timer(std::uint32_t request);
  void schedule_attempt_timer();
  [[nodiscard]] bool is_settled(const AttemptTimer& timer) const;
  void on_first_token(const engine::EngineEvent& event, const Replica& replica);
  void on_completed(const engine::EngineEvent& event, Replica& replica);
  void answer(std::uint32_t request);
  void start_transfer(std::uint32_t request, Replica& source);
  void decode(std::uint32_t request);
  void try_again(std::uint32_t request, Outcome otherwise);
  void leave(std::uint32_t request, Outcome outcome);
  // Takes the request from its engine. Returns the tokens that its client received.
  std::uint32_t withdraw(std::uint32_t request);
  void complete(std::uint32_t request, std::uint32_t pool);
  void fail(std::uint32_t request, std::uint32_t pool, Outcome outcome, std::uint32_t output_tokens);
  void refuse(std::uint32_t request);
  void schedule_tick();
  [[nodiscard]] engine::EngineRequest engine_request(std::uint32_t request, signals::Role role) const;

  const workload::Workload& workload_;
  const RunOptions& options_;
  const Gateway& gateway_;
  dispatch::Dispatcher& dispatcher_;
  Timeline& timeline_;
  Fleet& fleet_;
  Recorder& recorder_;
  TrafficView& view_;
  CacheFeed cache_feed_;
  core::RandomStream clients_;

  // By request: leading blocks that others may have. The others have no names, because nothing ever finds them.
  std::vector<std::uint32_t> shared_blocks_;
  std::vector<Flight> flights_;                                  // By request.
  std::unordered_map<dispatch::Ticket, std::uint32_t> waiting_;  // The requests of tickets that wait.
  core::QuantileSketch waits_ms_;                                // Of requests that were granted after they waited.
  std::vector<std::uint32_t> undecoded_;                         // Requests whose KV waits for a decode replica.
  std::vector<std::uint32_t> lost_;  // Requests whose replica crashed, and that no other could take.
  std::deque<AttemptTimer> attempt_timers_;
  bool attempt_timer_pending_ = false;
  std::vector<std::uint32_t> transfers_;  // The request of each, in the order of their starts.

  // Ticks of the dispatcher that are scheduled for other times than `next_tick_` do nothing.
  core::Instant gateway_back_at_, next_tick_ = core::kNever;
  std::vector<std::uint32_t> unsent_;  // Requests whose clients wait for the gateway.
  GatewayTotals before_;               // Of the gateway before its restarts.
  ClientTotals totals_;

  std::vector<engine::EngineEvent> events_;
  std::vector<std::uint32_t> truncated_;  // Requests that the engine cuts in its current step.
  std::vector<std::uint64_t> keys_;
};

}  // namespace penstock::simulation
