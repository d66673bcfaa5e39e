// Pages of a gateway, a policy, a fleet and a gateway under control of a test, and a loop with a timeout.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "controller/fleet.h"
#include "controller/gateway_feed.h"
#include "decision/policy.h"
#include "net/address.h"
#include "net/loop.h"
#include "net/server.h"

namespace penstock::controller {

inline TrafficItem arrival(std::uint64_t request, double at_s, std::vector<std::uint64_t> keys = {}) {
  TrafficItem item;
  item.request = request;
  item.at_s = at_s;
  item.model = "m";
  item.traffic_class = "interactive";
  item.tenant = "shop";
  item.input_tokens = 1000;
  item.keys = std::move(keys);
  return item;
}
inline TrafficItem first_token(std::uint64_t request, double at_s, double ttft_ms, std::uint32_t cached_tokens = 0) {
  TrafficItem item;
  item.kind = TrafficItem::Kind::kFirstToken;
  item.request = request;
  item.at_s = at_s;
  item.ttft_ms = ttft_ms;
  item.cached_tokens = cached_tokens;
  return item;
}
inline TrafficItem end_of(std::uint64_t request, double at_s, std::string outcome = "completed", double itl_ms = 20.0) {
  TrafficItem item;
  item.kind = TrafficItem::Kind::kEnd;
  item.request = request;
  item.at_s = at_s;
  item.outcome = std::move(outcome);
  item.replica = "r1";
  item.prompt_tokens = 1100;
  item.output_tokens = 101;
  item.itl_ms = itl_ms;
  return item;
}
inline TrafficPage page_of(std::vector<TrafficItem> items, double now_s, std::string boot = "one") {
  TrafficPage page;
  page.boot = std::move(boot);
  page.now_s = now_s;
  page.items = std::move(items);
  return page;
}

// Decides the number of replicas that a test sets.
class ScriptedPolicy final : public decision::Policy {
 public:
  [[nodiscard]] std::string_view name() const override { return "scripted"; }
  [[nodiscard]] core::Duration interval() const override { return every; }
  [[nodiscard]] core::Duration memory() const override { return std::chrono::minutes{5}; }
  [[nodiscard]] decision::Decision decide(const signals::Observation& observation) override {
    ++decided;
    recent = observation.recent.size();
    seen = observation;
    seen.recent = {};
    decision::Decision decision;
    for (const signals::PoolObservation& pool : observation.pools)
      decision.pools.push_back({pool.target_replicas, target, reason, decision::Limit::kNone, evidence});
    decision.cause = cause;
    if (cause) decision.diagnosis = std::string{"words on "} + to_string(*cause);
    return decision;
  }

  void archive(core::StateArchive& state) override { state("scripted", decided); }

  core::Duration every = std::chrono::milliseconds{50};
  std::uint32_t target = 1;
  decision::Reason reason = decision::Reason::kSloMet;
  std::optional<decision::Cause> cause;
  std::vector<decision::Evidence> evidence;
  int decided = 0;
  std::size_t recent = 0;
  signals::Observation seen;
};

// One pool whose replicas a test sets.
class ScriptedFleet final : public Fleet {
 public:
  [[nodiscard]] bool acts() const override { return may_act; }
  void set_target(std::size_t, std::uint32_t replicas) override { wants.push_back(target = replicas); }
  void forget_targets() override { ++forgotten; }
  void update_gateway(const GatewayState& state, core::Instant) override { received.push_back(state.boot); }
  void recent_prompts(std::vector<std::uint32_t> input_tokens) override { prompts = std::move(input_tokens); }
  void hot_prefixes(std::vector<GatewayPrefix> all) override { prefixes = std::move(all); }
  [[nodiscard]] std::uint64_t role_switches(std::size_t pool) const override { return pool == 1 ? switched : 0; }
  void fill(std::size_t pool, signals::PoolObservation& seen) const override {
    seen.target_replicas = target;
    seen.switching = pool == 1 ? switching : 0;
    for (const ReplicaView& view : views) {
      seen.replicas.push_back(view.seen);
      ++seen.ready;
    }
  }
  [[nodiscard]] std::vector<ReplicaView> replicas(std::size_t) const override { return views; }
  [[nodiscard]] std::optional<telemetry::TokenFigures> tokens_of(
      std::uint32_t replica, std::optional<double> kv_bytes_per_token) const override {
    const auto found = tokens.find(replica);
    if (found == tokens.end()) return std::nullopt;
    telemetry::TokenFigures figures = found->second;
    figures.kv_bytes_used = kv_bytes_per_token;
    return figures;
  }
  [[nodiscard]] const std::vector<FleetEvent>& events() const override { return told; }
  [[nodiscard]] StartUpTimes* start_up_times(std::size_t) override { return &start_up; }

  StartUpTimes start_up;
  bool may_act = true;
  int forgotten = 0;
  std::uint32_t target = 1;
  std::uint32_t switching = 0;  // To pool 1, as the next one.
  std::uint64_t switched = 0;
  std::vector<std::uint32_t> wants, prompts;
  std::vector<std::string> received;
  std::vector<GatewayPrefix> prefixes;
  std::vector<ReplicaView> views;
  std::map<std::uint32_t, telemetry::TokenFigures> tokens;  // By replica.
  std::vector<FleetEvent> told;
};

// The admin address of a gateway, on the test's own loop.
class ScriptedGateway final : private net::ExchangeHandler {
 public:
  explicit ScriptedGateway(net::Loop& loop, const std::shared_ptr<net::TlsContext>& tls = nullptr)
      : listening_(*net::listen_on(net::Address{}, false)) {
    address_ = net::local_address(listening_);
    server_ = std::make_unique<net::Server>(loop, listening_, static_cast<net::ExchangeHandler&>(*this),
                                            net::ServerLimits{}, tls);
  }
  [[nodiscard]] const net::Address& address() const { return address_; }

  int status = 200;
  std::string overview = R"({"boot":"b","now_s":5,"replicas":[],"queue":{"interactive":2,"batch":1,"oldest_s":0.5,)"
                         R"("models":[{"model":"m","waiting_for_room":1,"oldest_s":0.25},)"
                         R"({"model":"other","waiting_for_room":2,"oldest_s":0.5}]},"refused_total":0})";
  std::string traffic = R"({"boot":"b","now_s":5,"next":0,"lost":0,"events":[]})";
  std::string prefixes = R"({"prefixes":[]})";
  std::function<std::string(std::string_view target)> answer_traffic;  // Instead of `traffic`.
  std::vector<std::string> asked;                                      // Targets.

 private:
  void on_request(net::Exchange& exchange) override {
    asked.emplace_back(exchange.head().target);
    const std::string_view path = exchange.head().path();
    if (path == "/penstock/v1/traffic")
      exchange.respond(status, {}, answer_traffic ? answer_traffic(exchange.head().target) : traffic);
    else
      exchange.respond(status, {}, path == "/penstock/v1/prefixes" ? prefixes : overview);
  }
  std::string error_body(int, std::string_view fault) override { return std::string{fault}; }

  int listening_;
  net::Address address_;
  std::unique_ptr<net::Server> server_;
};

// Runs the loop until a condition holds. Returns false after the timeout.
inline bool run_until(net::Loop& loop, const std::function<bool()>& holds) {
  bool held = false;
  const auto look = loop.every(std::chrono::milliseconds{10}, [&] {
    held = holds();
    if (held) loop.stop();
  });
  const auto timeout = loop.after(std::chrono::seconds{30}, [&] { loop.stop(); });
  loop.run();
  loop.cancel(look);
  loop.cancel(timeout);
  return held;
}

}  // namespace penstock::controller
