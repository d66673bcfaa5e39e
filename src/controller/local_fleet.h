// The replicas that Penstock runs itself on this machine: engine processes, from a wanted number to users' traffic and back.
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
  std::vector<std::string> arguments;  // of `penstock engine`, without ports and id
};

struct LocalFleetOptions {
  std::string program;        // of the engines: this one, as a rule
  std::string state_file;     // survives a restart of the planner
  std::string replicas_file;  // tells the gateway who serves
  std::string log_folder;
  bool dies_with_us = false;
  actuation::PortRange ports;
  std::vector<LocalPool> pools;
  actuation::Limits limits;
  actuation::WarmUpOptions warm_up;
  std::function<void(const std::string&)> say;  // what somebody should look at, as it happens; empty: nobody listens
};

// On one loop; advances a few times a second. A planner that is started again goes on from the state file: it adopts the
// processes that still run. One planner at a time has a state file. Stopping the planner leaves the engines and the gateway's list as they are, unless end_all()
// was called and has ended.
class LocalFleet final : public Fleet {
 public:
  [[nodiscard]] static core::Result<std::unique_ptr<LocalFleet>> open(net::Loop& loop, net::Client& client,
                                                                      LocalFleetOptions options);
  ~LocalFleet() override;
  LocalFleet(const LocalFleet&) = delete;
  LocalFleet& operator=(const LocalFleet&) = delete;

  [[nodiscard]] bool acts() const override { return true; }
  void want(std::size_t pool, std::uint32_t replicas) override;
  [[nodiscard]] std::uint32_t wanted(std::size_t pool) const { return wants_[pool].replicas; }
  void gateway_says(const GatewayState& state, core::Instant at) override;
  void recent_prompts(std::vector<std::uint32_t> input_tokens) override {
    recent_input_tokens_ = std::move(input_tokens);
  }
  void hot_prefixes(std::vector<GatewayPrefix> prefixes) override { hot_prefixes_ = std::move(prefixes); }
  // All replicas drain and stop; `done` is called once none is left.
  void end_all(std::function<void()> done);

  void fill(std::size_t pool, signals::PoolObservation& seen) const override;
  [[nodiscard]] std::vector<ReplicaView> replicas(std::size_t pool) const override;
  [[nodiscard]] const actuation::FleetState& state() const { return state_; }
  [[nodiscard]] std::string url_of(const actuation::Replica& replica) const;
  [[nodiscard]] std::optional<telemetry::TokenFigures> tokens_of(std::uint32_t replica,
                                                                 double kv_bytes_per_token) const override {
    return watch_.tokens_of(replica, kv_bytes_per_token);
  }
  [[nodiscard]] const std::vector<FleetEvent>& events() const override { return events_; }
  [[nodiscard]] const EngineWatch& engines() const { return watch_; }
  [[nodiscard]] std::uint64_t actions_failed(std::size_t pool) const { return actions_failed_[pool]; }

 private:
  LocalFleet(net::Loop& loop, net::Client& client, LocalFleetOptions options);
  struct Asked {  // of one replica
    std::optional<actuation::EngineSeen> engine;
    std::optional<actuation::GatewaySeen> gateway;
    std::optional<actuation::WarmUpSeen> warm_up;
    std::vector<actuation::HotPrefix> prefixes;  // to be sent once the other prompts are answered
    std::string last_words;
    std::string fpm_endpoint, kv_events_endpoint;
    std::uint32_t block_tokens = 0;
    std::uint64_t kv_blocks = 0;
    bool gone = false, under_way = false;
  };

  void advance();
  void reap();
  void ask_engines();
  void took(std::uint32_t replica, const std::string& info);
  [[nodiscard]] std::vector<actuation::Seen> seen() const;
  void take(const actuation::Step& step);
  void start(std::uint32_t id);
  void warm_up(std::uint32_t id);
  void send_prompt(std::uint32_t id, std::string path, std::string body);
  void send_prefixes(std::uint32_t id);
  void send_signal(std::uint32_t id, int number);
  void tell(bool warning, std::string pool, std::string text);
  void save();
  void write_replicas();
  void note_write(std::string& trouble, const core::Result<void>& done);
  [[nodiscard]] std::size_t pool_of(const actuation::Replica& replica) const;
  [[nodiscard]] std::string log_file(const actuation::Replica& replica) const;
  [[nodiscard]] bool is_known(std::uint32_t id) const;

  net::Loop& loop_;
  net::Client& client_;
  LocalFleetOptions options_;
  std::optional<connect::FileLock> lock_;  // of the state file
  connect::ProcessHost host_;
  EngineWatch watch_;
  actuation::FleetState state_, saved_;
  std::vector<actuation::PoolWant> wants_;
  std::vector<std::uint64_t> actions_failed_;
  std::map<std::uint32_t, Asked> asked_;  // by replica
  std::vector<std::uint32_t> recent_input_tokens_;
  std::vector<GatewayPrefix> hot_prefixes_;
  std::vector<connect::ReplicaEntry> written_;
  bool ever_written_ = false;
  std::string save_trouble_, replicas_trouble_;  // why these files cannot be written now; empty: they can
  std::vector<FleetEvent> events_;
  bool ending_ = false;  // for good: nothing is wanted any more
  std::function<void()> ended_;
  std::vector<net::Loop::Timer> timers_;
};

}  // namespace penstock::controller
