// A scripted API server with one object that has a scale, its pods and a controller that makes and deletes pods, and a
// fleet that scales it.
#pragma once

#include <gtest/gtest.h>

#include <charconv>
#include <list>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "controller/kubernetes_fleet.h"
#include "controller/live_testing.h"
#include "logging/log_testing.h"
#include "net/client_testing.h"
#include "net/server.h"

namespace penstock::controller::testing_cluster {

using Json = nlohmann::json;
using logging::Event;

inline std::int64_t number_of(const std::string& text) {
  std::int64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

// An object with /scale in the namespace "prod".
struct TestTarget {
  std::string text = "deployment/chat";  // As the configuration names it.
  std::uint32_t group_size = 1;          // Pods of one replica of a LeaderWorkerSet.
  bool serves_adapters = true;           // Of a component of a DynamoGraphDeployment.
  bool has_adapter = false;
  std::string ready_at = "2026-11-22T13:26:51Z";  // Pods were created 30 s before.
};

// Deletes pods as Kubernetes does: those with the least deletion cost of a Deployment, and the last groups of a
// LeaderWorkerSet.
class TestCluster final : public net::ExchangeHandler {
 public:
  TestCluster(net::Loop& loop, const TestTarget& target)
      : target_(*connect::parse_scale_target(target.text)),
        scaled_(target_),
        group_size_(target.group_size),
        ready_at_(target.ready_at) {
    if (!target_.component.empty()) {
      const connect::ScaleTarget adapter = adapter_of(target_);
      if (target.serves_adapters) objects_[adapter.resource.plural];
      if (target.has_adapter) scaled_ = adapter;
    }
    const int listening = *net::listen_on(net::Address{}, false);
    address = net::local_address(listening);
    server_ = std::make_unique<net::Server>(loop, listening, *this);
    for (const char* plural : {"pods", "horizontalpodautoscalers", "poddisruptionbudgets"}) objects_[plural];
  }

  net::Address address;
  std::uint32_t replicas = 0;
  std::vector<std::string> scales;  // Bodies of writes of the number of replicas.
  int scale_status = 200;           // Of the next writes.
  std::string retry_after;          // Of their refusals.
  int read_status = 200;            // Of the next reads of the number of replicas.
  int refused_reads = 0;
  int mark_status = 200;  // Of the next writes of pods.
  bool annotates_before_writes = false;
  bool new_pods_are_ready = true;
  bool counts_replicas = true;    // The status of the scale has their number.
  bool pods_watch_hangs = false;  // It stays open and brings nothing.
  std::set<std::string> deleted;
  std::string pod_selector;  // Of the last list or watch.

  [[nodiscard]] Json& pod(const std::string& name) { return objects_["pods"].at(name); }
  [[nodiscard]] std::size_t pods() { return objects_["pods"].size(); }
  void set(const std::string& plural, const std::string& name, Json object) {
    object["metadata"]["name"] = name;
    object["metadata"]["namespace"] = "prod";
    object["metadata"]["resourceVersion"] = std::to_string(++version_);
    const bool is_new = !objects_[plural].contains(name);
    objects_[plural][name] = object;
    publish(plural, is_new ? "ADDED" : "MODIFIED", object);
  }
  void remove(const std::string& plural, const std::string& name) {
    Json object = objects_[plural].at(name);
    object["metadata"]["resourceVersion"] = std::to_string(++version_);
    objects_[plural].erase(name);
    publish(plural, "DELETED", object);
  }
  void scale(std::uint32_t count, const std::string& manager) {
    replicas = count;
    Json fields{{"f:replicas", Json::object()}}, spec = Json::object();
    if (!scaled_.component.empty()) {
      fields = {{"f:components", {{"k:{\"name\":\"" + target_.component + "\"}", fields}}}};
      spec["components"] = {{{"name", "Frontend"}, {"replicas", 1}},
                            {{"name", target_.component}, {"replicas", replicas}}};
    }
    set(scaled_.resource.plural, scaled_.name,
        {{"spec", spec},
         {"metadata", {{"managedFields", {{{"manager", manager}, {"fieldsV1", {{"f:spec", fields}}}}}}}}});
    if (scaled_.component != target_.component && !objects_[target_.resource.plural].contains(target_.name))
      set(target_.resource.plural, target_.name, {{"spec", {{"components", {{{"name", target_.component}}}}}}});
    if (group_size_ > 1) return scale_groups();
    while (pods() > replicas) {
      const auto order = [](const Json& pod) {
        const Json annotations = pod["metadata"].value("annotations", Json::object());
        const bool is_ready = pod["status"]["conditions"][0]["status"] == "True";
        return std::pair{is_ready, number_of(annotations.value("controller.kubernetes.io/pod-deletion-cost", "0"))};
      };
      auto first = objects_["pods"].begin();
      for (auto each = first; each != objects_["pods"].end(); ++each)
        if (order(each->second) < order(first->second)) first = each;
      delete_pod(std::string{first->first});
    }
    while (pods() < replicas) add_pod("chat-" + std::to_string(names_++), new_pods_are_ready);
  }
  // Another client changes something of the object but not its number of replicas.
  void annotate() {
    Json changed = object();
    changed["metadata"]["annotations"]["count"] = std::to_string(version_);
    Json& managers = changed["metadata"]["managedFields"];
    if (managers.back()["manager"] != "another-client")
      managers.push_back({{"manager", "another-client"}, {"time", "2026-11-22T13:26:30Z"}});
    set(scaled_.resource.plural, scaled_.name, changed);
  }
  // The adapter is gone, and its component is scaled in the DynamoGraphDeployment.
  void remove_adapter() {
    const connect::ScaleTarget adapter = std::exchange(scaled_, target_);
    scale(replicas, "operator");
    remove(adapter.resource.plural, adapter.name);
  }
  void delete_pod(const std::string& name) {
    deleted.insert(name);
    remove("pods", name);
  }
  void add_worker(std::uint32_t group, std::uint32_t worker, bool is_ready, const std::string& node) {
    const std::string leader = "chat-" + std::to_string(group);
    const std::string name = worker == 0 ? leader : leader + "-" + std::to_string(worker);
    Json object = new_pod(name, is_ready);
    object["metadata"]["labels"] = {{"leaderworkerset.sigs.k8s.io/name", "chat"},
                                    {"leaderworkerset.sigs.k8s.io/group-index", std::to_string(group)},
                                    {"leaderworkerset.sigs.k8s.io/worker-index", std::to_string(worker)}};
    object["metadata"]["annotations"] = {{"leaderworkerset.sigs.k8s.io/size", std::to_string(group_size_)}};
    object["spec"] = {{"nodeName", node}, {"containers", {{{"resources", {{"limits", {{"nvidia.com/gpu", "4"}}}}}}}}};
    set("pods", name, object);
  }
  void add_pod(const std::string& name, bool is_ready = true) { set("pods", name, new_pod(name, is_ready)); }

 private:
  [[nodiscard]] Json new_pod(const std::string& name, bool is_ready) const {
    return {{"metadata", {{"uid", name}, {"labels", {{"app", "chat"}}}, {"creationTimestamp", "2026-11-22T13:26:21Z"}}},
            {"spec", {{"nodeName", "n"}}},
            {"status",
             {{"podIP", "127.0.0.1"},
              {"conditions",
               {{{"type", "Ready"}, {"status", is_ready ? "True" : "False"}, {"lastTransitionTime", ready_at_}}}}}}};
  }
  void scale_groups() {
    for (std::uint32_t group = replicas; objects_["pods"].contains("chat-" + std::to_string(group)); ++group)
      for (std::uint32_t worker = 0; worker < group_size_; ++worker)
        delete_pod("chat-" + std::to_string(group) + (worker == 0 ? "" : "-" + std::to_string(worker)));
    for (std::uint32_t group = 0; group < replicas; ++group)
      for (std::uint32_t worker = 0; worker < group_size_; ++worker)
        if (!objects_["pods"].contains("chat-" + std::to_string(group) +
                                       (worker == 0 ? "" : "-" + std::to_string(worker))))
          add_worker(group, worker, true, "n");
  }

  struct Watch final : net::ExchangeListener {
    Watch(TestCluster& owner, net::Exchange& its, std::string resource)
        : cluster{owner}, exchange{&its}, plural{std::move(resource)} {
      its.listen(this);
    }
    void on_writable() override {}
    void on_client_gone() override {
      cluster.watches_.remove_if([this](const Watch& watch) { return &watch == this; });
    }
    TestCluster& cluster;
    net::Exchange* exchange;
    std::string plural;
  };

  void publish(const std::string& plural, const char* type, const Json& object) {
    log_.push_back({version_, plural, Json{{"type", type}, {"object", object}}.dump() + "\n"});
    if (pods_watch_hangs && plural == "pods") return;
    for (Watch& watch : watches_)
      if (watch.plural == plural) watch.exchange->write(std::get<2>(log_.back()));
  }
  Json& object() { return objects_[scaled_.resource.plural].at(scaled_.name); }
  Json scale_object() {
    Json status{{"selector", group_size_ > 1 ? "leaders=only" : "app=chat"}};
    if (counts_replicas) status["replicas"] = replicas;
    return {{"kind", "Scale"},
            {"metadata", {{"resourceVersion", object()["metadata"]["resourceVersion"]}}},
            {"spec", {{"replicas", replicas}}},
            {"status", std::move(status)}};
  }
  void respond(net::Exchange& exchange, int status, const Json& body) const {
    std::vector<net::Field> fields{{"Content-Type", "application/json"}};
    if (status >= 400 && !retry_after.empty()) fields.push_back({"Retry-After", retry_after});
    exchange.respond(status, fields, body.dump());
  }

  void on_request(net::Exchange& exchange) override {
    const std::string path{exchange.head().path()};
    const bool is_patch = exchange.head().method == "PATCH";
    const Json body = is_patch ? Json::parse(exchange.body()) : Json{};
    const connect::ApiResource& kind = scaled_.resource;
    if (path == "/apis/" + kind.group + "/" + kind.version + "/namespaces/prod/" + kind.plural + "/" + scaled_.name +
                    "/scale") {
      if (!is_patch && read_status != 200) {
        ++refused_reads;
        return respond(exchange, read_status, {{"kind", "Status"}, {"reason", "Forbidden"}, {"code", read_status}});
      }
      if (!is_patch) return respond(exchange, 200, scale_object());
      scales.emplace_back(exchange.body());
      if (annotates_before_writes) annotate();
      if (scale_status != 200)
        return respond(
            exchange, scale_status,
            {{"kind", "Status"}, {"reason", scale_status == 409 ? "Conflict" : "Forbidden"}, {"code", scale_status}});
      if (body["metadata"]["resourceVersion"] != object()["metadata"]["resourceVersion"])
        return respond(exchange, 409, {{"kind", "Status"}, {"reason", "Conflict"}, {"code", 409}});
      scale(body["spec"]["replicas"], "penstock");
      return respond(exchange, 200, scale_object());
    }
    if (is_patch && !scaled_.component.empty() && path.ends_with("/dynamographdeployments/" + scaled_.name)) {
      scales.emplace_back(exchange.body());
      const Json patched = object().patch(body);
      if (scale_status != 200 || patched["metadata"]["resourceVersion"] != object()["metadata"]["resourceVersion"])
        return respond(exchange, 409, {{"kind", "Status"}, {"reason", "Conflict"}, {"code", 409}});
      scale(patched["spec"]["components"][1]["replicas"], "penstock");
      return respond(exchange, 200, object());
    }
    if (const std::string pods = "/api/v1/namespaces/prod/pods/"; is_patch && path.starts_with(pods)) {
      if (mark_status != 200)
        return respond(exchange, mark_status, {{"kind", "Status"}, {"reason", "Forbidden"}, {"code", mark_status}});
      Json object = pod(path.substr(pods.size()));
      object.merge_patch(body);
      set("pods", path.substr(pods.size()), object);
      return respond(exchange, 200, object);
    }
    const std::string plural = path.substr(path.rfind('/') + 1);
    if (plural == "pods") pod_selector = exchange.head().decoded_parameter("labelSelector");
    if (!objects_.contains(plural)) return respond(exchange, 404, {{"kind", "Status"}, {"code", 404}});
    if (exchange.head().parameter("watch") != "1") {
      Json items = Json::array();
      for (const auto& [name, object] : objects_[plural]) items.push_back(object);
      return respond(exchange, 200, {{"metadata", {{"resourceVersion", std::to_string(version_)}}}, {"items", items}});
    }
    exchange.start(200, {}, std::nullopt);
    exchange.flush();
    watches_.emplace_back(*this, exchange, plural);
    const std::int64_t from = number_of(exchange.head().decoded_parameter("resourceVersion"));
    for (const auto& [version, resource, line] : log_)
      if (version > from && resource == plural) exchange.write(line);
  }
  std::string error_body(int, std::string_view) override { return "{}"; }

  const connect::ScaleTarget target_;
  connect::ScaleTarget scaled_;  // The adapter of `target_`, or `target_`.
  const std::uint32_t group_size_;
  const std::string ready_at_;
  std::map<std::string, std::map<std::string, Json>> objects_;
  std::vector<std::tuple<std::int64_t, std::string, std::string>> log_;
  std::int64_t version_ = 1;
  int names_ = 1;
  std::list<Watch> watches_;
  std::unique_ptr<net::Server> server_;
};

class KubernetesFleetTest : public testing::Test {
 protected:
  explicit KubernetesFleetTest(const TestTarget& target = {}, KubernetesPool pool = {"chat", {}})
      : cluster{loop, target} {
    cluster.scale(3, "kubectl");
    options.api.access.server = *net::parse_url("http://" + cluster.address.text());
    options.api.backoff = {std::chrono::milliseconds{1}, std::chrono::milliseconds{5}};
    options.api.may_write = [this] { return leads; };
    options.in_namespace = "prod";
    pool.target = *connect::parse_scale_target(target.text);
    options.pools = {std::move(pool)};
    options.engines.interval = std::chrono::milliseconds{100};
    options.limits.manual_hold = std::chrono::seconds{1};
    options.limits.pending_timeout = std::chrono::milliseconds{500};
    options.limits.mark_delay = std::chrono::milliseconds{100};
    options.limits.unknown_age = std::chrono::milliseconds{200};
    options.termination_margin = std::chrono::milliseconds{500};
    options.port = engines.port;
    fleet = *KubernetesFleet::start(loop, client, log, options);
  }

  // Gateway and engines have so many open requests on each pod; without a number the gateway does not answer.
  void run(core::Duration time) {
    for (core::Duration passed{}; passed < time; passed += std::chrono::milliseconds{20}) {
      net::testing::run_for(loop, std::chrono::milliseconds{20});
      if (!open) continue;
      GatewayState state;
      for (const ReplicaView& view : fleet->replicas(0)) {
        GatewayReplica& made = state.replicas[view.name];
        made.eligible = view.seen.state == signals::ReplicaState::kReady;
        made.open_requests = *open;
        made.open_transfers = open_transfers;
        made.model = "m";
      }
      for (const std::string& name : listed_too) {
        state.replicas[name].eligible = true;
        state.replicas[name].model = "m";
      }
      fleet->update_gateway(state, loop.now());
    }
  }
  template <class Condition>
  bool until(Condition holds) {
    for (int turn = 0; turn < 1500 && !holds(); ++turn) run(std::chrono::milliseconds{20});
    return holds();
  }
  signals::PoolObservation seen() const {
    signals::PoolObservation made;
    fleet->fill(0, made);
    return made;
  }

  // The metrics of all engines, whose address and port are the same.
  struct Engines final : net::ExchangeHandler {
    explicit Engines(net::Loop& loop) {
      const int listening = *net::listen_on(net::Address{}, false);
      port = net::local_address(listening).port();
      server_ = std::make_unique<net::Server>(loop, listening, *this);
    }
    void on_request(net::Exchange& exchange) override {
      exchange.respond(200, {},
                       "# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running{model_name=\"m\"} " +
                           std::to_string(running) +
                           "\n# TYPE vllm:num_requests_waiting gauge\nvllm:num_requests_waiting{model_name=\"m\"} 0\n" +
                           "# TYPE penstock_engine_kv_transfers_open gauge\npenstock_engine_kv_transfers_open " +
                           std::to_string(transfers) + "\n");
    }
    std::string error_body(int, std::string_view) override { return {}; }
    std::uint32_t running = 0, transfers = 0;
    std::uint16_t port = 0;
    std::unique_ptr<net::Server> server_;
  };

  bool leads = true;
  net::Loop loop;
  net::Client client{loop};
  logging::testing::CapturedLog log;
  TestCluster cluster;
  Engines engines{loop};
  std::optional<std::uint32_t> open = 0;
  std::vector<std::string> listed_too;  // The gateway routes to these, too.
  std::uint32_t open_transfers = 0;
  KubernetesFleetOptions options;
  std::unique_ptr<KubernetesFleet> fleet;
};

}  // namespace penstock::controller::testing_cluster
