// The replicas that Penstock runs itself on this machine: engine processes, started and stopped to meet a target.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "actuation/advance.h"
#include "actuation/warm_up.h"
#include "connect/file_lock.h"
#include "connect/processes/process_host.h"
#include "connect/replicas_file.h"
#include "controller/engine_watch.h"
#include "controller/fleet.h"
#include "controller/gateway_feed.h"
#include "core/result.h"
#include "net/client.h"
#include "net/loop.h"
#include "signals/observation.h"

namespace penstock::controller {

struct LocalPool {
  std::string name;
  signals::Role role = signals::Role::kAggregated;
  std::string model = "penstock-sim";
  std::vector<std::string> arguments;  // For `penstock engine`, without ports and id.
  std::optional<actuation::RoleSwitch> role_switch{};
  std::optional<core::Duration> drain_deadline{}, unhealthy_drain_deadline{};  // Empty: those of the limits.
};

struct LocalFleetOptions {
  std::string program;        // runs the engines: usually this program
  std::string state_file;     // survives a restart of the planner
  std::string replicas_file;  // Lists the replicas for the gateway.
  std::string log_folder;
  bool dies_with_us = false;
  actuation::PortRange ports;
  std::vector<LocalPool> pools;
  actuation::Limits limits;
  actuation::WarmUpOptions warm_up;
};

// Index of the pool that is configured for the replica; the number of pools if none is.
[[nodiscard]] std::size_t pool_of(const LocalFleetOptions& options, const actuation::Replica& replica);

// Lives on one loop; advances a few times a second. A planner that is started again continues from the state file: it
// adopts the processes that still run. The state file is locked, so that one planner at a time uses it. Destroying the
// fleet leaves the engines and the gateway's list as they are, unless stop_all() was called and has finished.
class LocalFleet final : public Fleet {
 public:
  [[nodiscard]] static core::Result<std::unique_ptr<LocalFleet>> open(net::Loop& loop, net::Client& client,
                                                                      logging::Log& log, LocalFleetOptions options);
  ~LocalFleet() override;
  LocalFleet(const LocalFleet&) = delete;
  LocalFleet& operator=(const LocalFleet&) = delete;

  [[nodiscard]] bool acts() const override { return true; }
  void set_target(std::size_t pool, std::uint32_t replicas) override;
  void set_asleep(std::size_t pool, std::uint32_t replicas) override;
  [[nodiscard]] std::uint32_t target(std::size_t pool) const { return wants_[pool].replicas; }
  void update_gateway(const GatewayState& state, core::Instant at) override;
  void recent_prompts(std::vector<std::uint32_t> input_tokens) override {
    recent_input_tokens_ = std::move(input_tokens);
  }
  void hot_prefixes(std::vector<GatewayPrefix> prefixes) override { hot_prefixes_ = std::move(prefixes); }
  // All replicas drain and stop; `done` is called once none is left.
  void stop_all(std::function<void()> done);

  [[nodiscard]] std::uint64_t role_switches(std::size_t pool) const override { return role_switches_[pool]; }
  void fill(std::size_t pool, signals::PoolObservation& seen) const override;
  [[nodiscard]] std::vector<ReplicaView> replicas(std::size_t pool) const override;
  [[nodiscard]] const actuation::FleetState& state() const { return state_; }
  [[nodiscard]] std::string url_of(const actuation::Replica& replica) const;
  [[nodiscard]] std::optional<telemetry::TokenFigures> tokens_of(
      std::uint32_t replica, std::optional<double> kv_bytes_per_token) const override {
    return watch_.tokens_of(replica, kv_bytes_per_token);
  }
  [[nodiscard]] const std::vector<FleetEvent>& events() const override { return events_.all(); }
  [[nodiscard]] const EngineWatch& engines() const { return watch_; }
  [[nodiscard]] std::uint64_t actions_failed(std::size_t pool) const { return actions_failed_[pool]; }

 private:
  LocalFleet(net::Loop& loop, net::Client& client, logging::Log& log, LocalFleetOptions options);
  struct Reports {  // On one replica.
    std::optional<actuation::EngineSeen> engine;
    std::optional<actuation::GatewaySeen> gateway;
    std::optional<actuation::WarmUpSeen> warm_up;
    std::vector<actuation::HotPrefix> prefixes;  // Sent once the other prompts are answered.
    std::string end_cause;                       // exit code or signal, and the last line of the log
    std::vector<std::string> fpm;
    std::string kv_events_endpoint;
    std::uint32_t block_tokens = 0;
    std::uint64_t kv_blocks = 0;
    std::string role;  // As the engine reports it.
    bool gone = false, in_flight = false;
    // Requests to sleep, to wake up and to change the role follow each other. What the engine reported before the end
    // of one may be outdated, so that a report counts only if no request has begun or ended since it was requested.
    std::uint32_t controls = 0;     // Begun and ended requests.
    bool controlled = false;        // One is in flight.
    core::Instant controlled_at{};  // When the last one began.
  };

  void advance();
  void reap();
  void request_info();
  void store_info(std::uint32_t replica, const std::string& info);
  [[nodiscard]] std::vector<actuation::Seen> observe() const;
  void run(const actuation::Step& step);
  void start(std::uint32_t id);
  void warm_up(std::uint32_t id);
  void send_prompt(std::uint32_t id, std::string path, std::string body);
  void send_prefixes(std::uint32_t id);
  void send_signal(std::uint32_t id, int number);
  // Requests what the stage of the replica needs and its engine has not reported.
  void control(std::uint32_t id);
  void report(bool warning, const std::string& pool, const std::string& text);
  void save();
  void write_replicas();
  void report_write(std::string& failure, const core::Result<void>& done);
  [[nodiscard]] bool is_known(std::uint32_t id) const;

  net::Loop& loop_;
  net::Client& client_;
  LocalFleetOptions options_;
  std::optional<connect::FileLock> lock_;  // Of the state file.
  connect::ProcessHost host_;
  FleetEvents events_;
  EngineWatch watch_;
  actuation::FleetState state_, saved_;
  std::vector<actuation::PoolWant> wants_;
  std::vector<std::uint64_t> actions_failed_, role_switches_;  // By pool.
  std::map<std::uint32_t, Reports> reports_;                   // By replica.
  std::vector<std::uint32_t> recent_input_tokens_;
  std::vector<GatewayPrefix> hot_prefixes_;
  std::vector<connect::ReplicaEntry> written_;
  bool ever_written_ = false;
  std::string state_failure_, replicas_failure_;  // Why these files cannot be written; empty if they can.
  bool stopping_ = false;                         // stop_all() was called
  std::function<void()> on_stopped_;
  std::vector<net::Loop::Timer> timers_;
};

}  // namespace penstock::controller
