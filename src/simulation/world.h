// The discrete-event world: requests arrive, are routed and served, while a policy watches and scales.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <queue>
#include <string>
#include <utility>
#include <vector>

#include "core/random.h"
#include "decision/decision_loop.h"
#include "decision/figures.h"
#include "decision/run_result.h"
#include "signals/segment_meter.h"
#include "simulation/event_heap.h"
#include "simulation/fleet.h"
#include "simulation/recorder.h"
#include "simulation/run.h"

namespace penstock::simulation {

// One run. Arrivals come from the workload in order, engines are actors in a heap, all else (ticks, start-ups,
// transfers, crashes, points of the series) is a queue of control events. Of equal times, control events come first, then
// arrivals, then engines.
class World {
 public:
  World(const workload::Workload& workload, decision::Policy& policy, const RunOptions& options);
  [[nodiscard]] decision::RunResult run();

 private:
  enum class Control : std::uint8_t {
    kReplicaHealthy,
    kReplicaReady,
    kFleet,
    kTransferDone,
    kCrash,
    kScrape,
    kTick,
    kPoint
  };
  struct ControlEvent {
    core::Instant at;
    std::uint64_t serial;  // equal times run in the order they were scheduled
    Control kind;
    std::uint32_t subject;  // replica or transfer
    bool operator>(const ControlEvent& other) const { return at != other.at ? at > other.at : serial > other.serial; }
  };
  static constexpr std::uint32_t kNone = UINT32_MAX;
  struct Flight {  // a request on its way
    std::uint32_t replica = kNone;
    std::uint32_t transfer = kNone;    // of its KV, while that is on its way
    std::uint32_t charged_tokens = 0;  // uncached prompt tokens the router counts until the first token
    std::uint32_t cached_tokens = 0;
  };

  struct Passage {            // when a request went from one part of its time to the next
    core::Instant submitted;  // to the engine that computed its prompt
    core::Instant admitted, prefilled;
  };

  void schedule(core::Instant at, Control kind, std::uint32_t subject = 0);
  void handle(const ControlEvent& event);

  void arrive(std::uint32_t request);
  void route(std::uint32_t request, std::uint32_t pool);
  void advance_engine(std::uint32_t replica);
  void on_first_token(const engine::EngineEvent& event, Replica& replica);
  void on_completed(const engine::EngineEvent& event, Replica& replica);
  void answer(std::uint32_t request, std::uint32_t cached_tokens);
  [[nodiscard]] signals::RequestTraits traits_of(std::uint32_t request) const;
  [[nodiscard]] signals::FirstTokenTimes times_of(std::uint32_t request) const;
  void start_transfer(std::uint32_t request, Replica& source);
  void finish_transfer(std::uint32_t transfer);
  void complete(std::uint32_t request, std::uint32_t pool);
  void fail(std::uint32_t request, std::uint32_t pool, Outcome outcome);
  [[nodiscard]] std::uint32_t blocks_of(std::uint32_t request, const Pool& pool) const;
  [[nodiscard]] engine::EngineRequest engine_request(std::uint32_t request, signals::Role role) const;

  void advance_fleet();
  void take(const actuation::Step& step);
  void start_replica(std::uint32_t id);
  void draw_crash(std::uint32_t id);
  void replica_ready(std::uint32_t id);
  void advance_if_drained(const Replica& replica);
  void end_replica(std::uint32_t id);
  void crash(std::uint32_t id);

  void scrape();
  void tick();
  [[nodiscard]] signals::Observation observe();
  [[nodiscard]] signals::PoolDetail detail_of(std::uint32_t pool);
  bool request_target(std::uint32_t pool, std::uint32_t target);

  const workload::Workload& workload_;
  decision::Policy& policy_;
  const RunOptions& options_;
  core::RandomStream faults_;
  Fleet fleet_;
  Recorder recorder_;
  core::Instant now_;
  EventHeap engines_;
  std::priority_queue<ControlEvent, std::vector<ControlEvent>, std::greater<>> control_;
  std::uint64_t next_serial_ = 0;
  std::vector<Flight> flights_;
  std::vector<signals::RecentRequest> seen_;  // by request, if the policy wants to see them
  std::size_t recent_from_ = 0;
  std::vector<signals::SegmentMeter> segments_;  // by pool, if the policy wants them …
  std::vector<Passage> passages_;                // … and then by request
  std::vector<std::uint32_t> transfers_;         // the request of each, as they were started
  std::vector<engine::EngineEvent> events_;
  std::uint32_t entry_pool_ = 0;
  std::optional<std::uint32_t> decode_pool_;
  std::vector<std::deque<std::pair<core::Instant, std::uint64_t>>> generated_history_;  // totals by pool, at ticks
  core::Duration point_width_{};

  decision::DecisionLoop loop_;
  std::vector<decision::DecisionRecord> decisions_, holds_;
  std::vector<decision::ForecastPoint> forecasts_;
};

[[nodiscard]] core::Duration series_width(const workload::Workload& workload, const RunOptions& options);

}  // namespace penstock::simulation
