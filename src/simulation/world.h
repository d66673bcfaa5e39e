// The discrete-event world: requests arrive, are routed and served, while a policy watches and scales.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/random.h"
#include "decision/decision_loop.h"
#include "decision/run_result.h"
#include "dispatch/dispatcher.h"
#include "simulation/budget_check.h"
#include "simulation/decision_history.h"
#include "simulation/fleet.h"
#include "simulation/follow_ups.h"
#include "simulation/gateway_options.h"
#include "simulation/gateway_totals.h"
#include "simulation/ledger_memory.h"
#include "simulation/recorder.h"
#include "simulation/request_path.h"
#include "simulation/run.h"
#include "simulation/timeline.h"
#include "simulation/traffic_view.h"

namespace penstock::simulation {

// One run: requests through the dispatcher, replicas by actuation::advance(), targets by a policy. Arrivals come from
// the workload in order, engines are actors in a heap, all else (ticks, start-ups, transfers, crashes, points of the
// series) is a queue of events. Of equal times, those events come first, then arrivals, then engines.
class World {
 public:
  // `arrivals` is the same workload and gets the arrivals of requests that wait for others; null if none do.
  World(const workload::Workload& workload, decision::Policy& policy, const RunOptions& options,
        workload::Workload* arrivals = nullptr);
  // A run is begin(), then step() until it returns false, then finish(). Worlds that run together take turns.
  void begin();
  [[nodiscard]] core::Instant next_time();  // Of the next step.
  bool step();
  [[nodiscard]] decision::RunResult finish();

  [[nodiscard]] const Fleet& fleet() const { return fleet_; }

 private:
  void follow_up(std::uint32_t ended, core::Instant at);
  [[nodiscard]] std::unique_ptr<dispatch::LedgerSink> ledger_sink();
  void handle(const Event& event);
  void begin_scoring();
  void report_loads();
  void check_invariants(bool at_end) const;

  void advance_fleet();
  void take(const actuation::Step& step);
  void start_replica(std::uint32_t id);
  void draw_crash(std::uint32_t id);
  void wake_replica(std::uint32_t id);
  void switch_role(std::uint32_t id);
  void replica_ready(std::uint32_t id);
  [[nodiscard]] bool is_idle(const Replica& replica) const;
  void advance_if_drained(const Replica& replica);
  void end_replica(std::uint32_t id);
  void crash(std::uint32_t id);

  void schedule_faults();
  void begin_fault(const FaultEvent& event);
  void end_fault(const FaultEvent& event);
  void set_speed(const FaultEvent& event);
  void hang(std::uint32_t id, core::Instant until);
  void check_health(std::uint32_t id);
  void check_silence(std::uint32_t id);
  void restart_gateway(const FaultEvent& event);
  void advance_draining();

  void scrape();
  void tick();
  [[nodiscard]] signals::Observation observe();
  bool request_target(std::uint32_t pool, std::uint32_t target);

  const workload::Workload& workload_;
  workload::Workload* arrivals_;
  FollowUps follow_ups_;
  core::Instant give_up_;
  decision::Policy& policy_;
  const RunOptions& options_;
  core::RandomStream faults_;
  Timeline timeline_;
  Gateway gateway_;
  LedgerMemory ledger_;
  BudgetCheck budgets_;
  std::optional<dispatch::Dispatcher> dispatcher_;  // Made anew, at the same address, when the gateway restarts.
  Fleet fleet_;
  Recorder recorder_;
  TrafficView view_;
  RequestPath requests_;
  std::vector<std::deque<std::pair<core::Instant, std::uint64_t>>> generated_history_;  // totals by pool, at ticks
  core::Duration point_width_{};
  std::size_t next_ = 0;  // The next request of the workload that arrives by itself.

  decision::DecisionLoop loop_;
  std::optional<std::uint64_t> unscored_changes_;  // Empty until the scoring begins.
  std::uint64_t unscored_direction_changes_ = 0;
  GatewayTotals unscored_gateway_;
  DecisionHistory history_;
};

[[nodiscard]] core::Duration series_width(const workload::Workload& workload, const RunOptions& options);

}  // namespace penstock::simulation
