// A planner daemon with a scripted gateway, policy and fleet.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "controller/live_testing.h"
#include "controller/planner_daemon.h"
#include "dashboard/dashboard_document.h"
#include "logging/log_testing.h"

namespace penstock::dashboard {

class PlannerDaemonTest : public testing::Test {
 protected:
  controller::PlannerDaemon& open(bool observe_only = false, std::string model = {},
                                  std::vector<signals::Pool> pools = {}) {
    controller::DaemonOptions options;
    options.model = std::move(model);
    signals::Pool pool;
    pool.name = "chat";
    pool.max_replicas = 4;
    pool.price_per_gpu_hour = 2.0;
    options.pools = pools.empty() ? std::vector{pool} : std::move(pools);
    options.observe_only = observe_only;
    options.gateways.hosts = {{"127.0.0.1", gateway.address().port()}};
    options.gateways.interval = std::chrono::milliseconds{20};
    options.gateways.timeout = std::chrono::seconds{10};
    options.point_interval = std::chrono::milliseconds{50};
    options.points_max = 5;
    options.decisions_max = 3;
    if (!state_file.empty()) options.policy_store = std::make_shared<controller::PolicyStateFile>(state_file);
    options.leadership = leadership;
    options.kv_bytes_per_token = {kv_bytes_per_token};
    options.max_sequences = {max_sequences};
    options.version = "1.2.3";
    options.policy_state_interval = std::chrono::milliseconds{0};
    daemon.emplace(loop, client, fleet, policy, std::move(options), log,
                   [this](const decision::DecisionRecord& record) { logged.push_back(record); });
    return *daemon;
  }
  void run_until_decided(int times = 1) {
    const int before = policy.decided;
    EXPECT_TRUE(controller::run_until(loop, [&] { return policy.decided >= before + times; }));
  }
  [[nodiscard]] nlohmann::json state() const {
    return nlohmann::json::parse(state_document(*daemon, loop.now(), "1.2.3"));
  }
  [[nodiscard]] nlohmann::json points() const { return nlohmann::json::parse(points_document(*daemon)); }

  // A replica without or with telemetry.
  static controller::ReplicaView view(const std::optional<signals::EngineSample>& sample) {
    return {"chat-1",
            "serving",
            "http://127.0.0.1:9",
            core::kStart,
            {1, signals::ReplicaState::kReady, core::kStart, sample}};
  }
  static signals::EngineSample sample() {
    signals::EngineSample made;
    made.queued_requests = 3;
    made.running_requests = 5;
    made.kv_used_tokens = 25;
    made.kv_capacity_tokens = 100;
    made.prompt_tokens_total = 1000;
    made.prefix_hit_tokens_total = 400;
    return made;
  }

  net::Loop loop;
  controller::ScriptedGateway gateway{loop};
  net::Client client{loop};
  controller::ScriptedPolicy policy;
  controller::ScriptedFleet fleet;
  std::vector<decision::DecisionRecord> logged;
  logging::testing::CapturedLog log;
  std::string state_file;
  const controller::Leadership* leadership = nullptr;
  std::optional<double> kv_bytes_per_token;  // What is known of the engines of the first pool.
  std::optional<std::uint32_t> max_sequences;
  std::optional<controller::PlannerDaemon> daemon;
};

}  // namespace penstock::dashboard
