// A scripted API server with one Deployment, its pods and a ReplicaSet that deletes pods as Kubernetes does.
#include "controller/kubernetes_fleet.h"

#include <gtest/gtest.h>

#include <charconv>
#include <list>
#include <nlohmann/json.hpp>

#include "controller/live_testing.h"
#include "logging/log_testing.h"
#include "net/client_testing.h"
#include "net/server.h"

namespace penstock::controller {
namespace {

using namespace std::chrono_literals;
using Json = nlohmann::json;
using logging::Event;

std::int64_t number_of(const std::string& text) {
  std::int64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

class TestCluster final : public net::ExchangeHandler {
 public:
  explicit TestCluster(net::Loop& loop) {
    const int listening = *net::listen_on(net::Address{}, false);
    address = net::local_address(listening);
    server_ = std::make_unique<net::Server>(loop, listening, *this);
    for (const char* plural : {"deployments", "pods", "horizontalpodautoscalers", "poddisruptionbudgets"})
      objects_[plural];
  }

  net::Address address;
  std::uint32_t replicas = 0;
  std::vector<std::string> scales;  // Bodies of writes of the number of replicas.
  int scale_status = 200;           // Of the next writes.
  std::set<std::string> deleted;

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
    set("deployments", "chat",
        {{"metadata",
          {{"managedFields",
            {{{"manager", manager}, {"fieldsV1", {{"f:spec", {{"f:replicas", Json::object()}}}}}}}}}}});
    while (pods() > replicas) {
      const auto order = [](const Json& pod) {
        const Json annotations = pod["metadata"].value("annotations", Json::object());
        const bool is_ready = pod["status"]["conditions"][0]["status"] == "True";
        return std::pair{is_ready, number_of(annotations.value("controller.kubernetes.io/pod-deletion-cost", "0"))};
      };
      auto first = objects_["pods"].begin();
      for (auto each = first; each != objects_["pods"].end(); ++each)
        if (order(each->second) < order(first->second)) first = each;
      deleted.insert(first->first);
      remove("pods", std::string{first->first});
    }
    while (pods() < replicas) add_pod("chat-" + std::to_string(names_++));
  }
  void add_pod(const std::string& name, bool is_ready = true) {
    set("pods", name,
        {{"metadata", {{"uid", name}, {"labels", {{"app", "chat"}}}, {"creationTimestamp", "2026-11-22T13:26:21Z"}}},
         {"spec", {{"nodeName", "n"}}},
         {"status",
          {{"podIP", "127.0.0.1"},
           {"conditions",
            {{{"type", "Ready"},
              {"status", is_ready ? "True" : "False"},
              {"lastTransitionTime", "2026-11-22T13:26:51Z"}}}}}}});
  }

 private:
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
    for (Watch& watch : watches_)
      if (watch.plural == plural) watch.exchange->write(std::get<2>(log_.back()));
  }
  Json scale_object() {
    return {{"kind", "Scale"},
            {"metadata", {{"resourceVersion", objects_["deployments"].at("chat")["metadata"]["resourceVersion"]}}},
            {"spec", {{"replicas", replicas}}},
            {"status", {{"replicas", replicas}, {"selector", "app=chat"}}}};
  }
  static void respond(net::Exchange& exchange, int status, const Json& body) {
    const std::vector<net::Field> fields{{"Content-Type", "application/json"}};
    exchange.respond(status, fields, body.dump());
  }

  void on_request(net::Exchange& exchange) override {
    const std::string path{exchange.head().path()};
    const bool is_patch = exchange.head().method == "PATCH";
    const Json body = is_patch ? Json::parse(exchange.body()) : Json{};
    if (path == "/apis/apps/v1/namespaces/prod/deployments/chat/scale") {
      if (!is_patch) return respond(exchange, 200, scale_object());
      scales.emplace_back(exchange.body());
      if (scale_status != 200)
        return respond(
            exchange, scale_status,
            {{"kind", "Status"}, {"reason", scale_status == 409 ? "Conflict" : "Forbidden"}, {"code", scale_status}});
      if (body["metadata"]["resourceVersion"] != objects_["deployments"].at("chat")["metadata"]["resourceVersion"])
        return respond(exchange, 409, {{"kind", "Status"}, {"reason", "Conflict"}, {"code", 409}});
      scale(body["spec"]["replicas"], "penstock");
      return respond(exchange, 200, scale_object());
    }
    if (const std::string pods = "/api/v1/namespaces/prod/pods/"; is_patch && path.starts_with(pods)) {
      Json object = pod(path.substr(pods.size()));
      object.merge_patch(body);
      set("pods", path.substr(pods.size()), object);
      return respond(exchange, 200, object);
    }
    const std::string plural = path.substr(path.rfind('/') + 1);
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

  std::map<std::string, std::map<std::string, Json>> objects_;
  std::vector<std::tuple<std::int64_t, std::string, std::string>> log_;
  std::int64_t version_ = 1;
  int names_ = 1;
  std::list<Watch> watches_;
  std::unique_ptr<net::Server> server_;
};

class KubernetesFleetTest : public testing::Test {
 protected:
  KubernetesFleetTest() {
    cluster.scale(3, "kubectl");
    options.api.access.server = *net::parse_url("http://" + cluster.address.text());
    options.api.backoff = {1ms, 5ms};
    options.in_namespace = "prod";
    options.pools = {{"chat", *connect::parse_scale_target("deployment/chat")}};
    options.engines.interval = 100ms;
    options.limits.manual_hold = 1s;
    options.limits.mark_delay = 100ms;
    options.port = engines.port;
    options.api.may_write = [this] { return leads; };
    fleet = *KubernetesFleet::start(loop, client, log, options);
  }

  // Gateway and engines have so many open requests on each pod; without a number the gateway does not answer.
  void run(core::Duration time) {
    for (core::Duration passed{}; passed < time; passed += 20ms) {
      net::testing::run_for(loop, 20ms);
      if (!open) continue;
      GatewayState state;
      for (const ReplicaView& view : fleet->replicas(0)) {
        GatewayReplica& made = state.replicas[view.name];
        made.eligible = view.seen.state == signals::ReplicaState::kReady;
        made.open_requests = *open;
        made.model = "m";
      }
      fleet->update_gateway(state, loop.now());
    }
  }
  template <class Condition>
  bool until(Condition holds) {
    for (int turn = 0; turn < 1500 && !holds(); ++turn) run(20ms);
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
                           "\n# TYPE vllm:num_requests_waiting gauge\nvllm:num_requests_waiting{model_name=\"m\"} 0\n");
    }
    std::string error_body(int, std::string_view) override { return {}; }
    std::uint32_t running = 0;
    std::uint16_t port = 0;
    std::unique_ptr<net::Server> server_;
  };

  net::Loop loop;
  net::Client client{loop};
  logging::testing::CapturedLog log;
  TestCluster cluster{loop};
  Engines engines{loop};
  std::optional<std::uint32_t> open = 0;
  bool leads = true;
  KubernetesFleetOptions options;
  std::unique_ptr<KubernetesFleet> fleet;
};

TEST_F(KubernetesFleetTest, PodsOfTheSelectorAreReplicasAndNothingIsKnownBefore) {
  EXPECT_NE(fleet->unknown_because(), "");
  EXPECT_EQ(seen().replicas.size(), 0U);
  ASSERT_TRUE(until([&] { return fleet->unknown_because().empty(); })) << fleet->unknown_because();
  cluster.add_pod("chat-9", false);
  ASSERT_TRUE(until([&] { return seen().starting == 1; }));
  EXPECT_EQ(seen().ready, 3U);
  EXPECT_EQ(seen().target_replicas, 3U);
  EXPECT_EQ(seen().start_up, core::Duration{30s}) << "learned from the pods";
  EXPECT_EQ(fleet->replicas(0).at(0).stage, "serving");
  EXPECT_TRUE(cluster.scales.empty());
}

TEST_F(KubernetesFleetTest, ScalesUpByThePatchOfTheVersionThatWasRead) {
  fleet->set_target(0, 5);
  ASSERT_TRUE(until([&] { return cluster.pods() == 5; }));
  EXPECT_EQ(cluster.scales.size(), 1U);
  const Json body = Json::parse(cluster.scales.at(0));
  EXPECT_EQ(body["spec"]["replicas"], 5);
  EXPECT_TRUE(body["metadata"].contains("resourceVersion"));
  EXPECT_TRUE(until([&] { return log.count(Event::kScaled) == 1; }));
}

TEST_F(KubernetesFleetTest, ScalesDownOnlyPodsOnWhichNothingIsOpen) {
  open = 2;
  engines.running = 1;
  fleet->set_target(0, 1);
  ASSERT_TRUE(until([&] { return seen().draining == 2; }));
  run(1s);
  EXPECT_EQ(cluster.pods(), 3U);
  open = 0;
  run(1s);
  EXPECT_EQ(cluster.pods(), 3U) << "the engines have open requests";
  engines.running = 0;
  ASSERT_TRUE(until([&] { return cluster.pods() == 1; }));
  EXPECT_EQ(seen().target_replicas, 1U);
  ASSERT_TRUE(until([&] { return seen().draining == 0; }));
}

TEST_F(KubernetesFleetTest, WithoutTheGatewayNothingShrinks) {
  open.reset();
  fleet->set_target(0, 1);
  ASSERT_TRUE(until([&] { return seen().draining == 2; }));
  run(2s);
  EXPECT_EQ(cluster.pods(), 3U);
}

TEST_F(KubernetesFleetTest, ADrainIsCancelledWhenThePodIsNeededAgain) {
  open = 1;
  fleet->set_target(0, 2);
  ASSERT_TRUE(until([&] { return seen().draining == 1; }));
  fleet->set_target(0, 3);
  ASSERT_TRUE(until([&] { return seen().ready == 3; }));
  EXPECT_TRUE(cluster.scales.empty());
}

TEST_F(KubernetesFleetTest, AConflictIsReadAgain) {
  ASSERT_TRUE(until([&] { return fleet->unknown_because().empty(); }));
  cluster.scale_status = 409;
  fleet->set_target(0, 4);
  ASSERT_TRUE(until([&] { return !cluster.scales.empty(); }));
  cluster.scale_status = 200;
  ASSERT_TRUE(until([&] { return cluster.pods() == 4; }));
  EXPECT_GE(fleet->scaling(0)->conflicts, 1U);
}

TEST_F(KubernetesFleetTest, ARefusedWriteIsReportedOnceAndTriedAgain) {
  cluster.scale_status = 403;
  fleet->set_target(0, 4);
  ASSERT_TRUE(until([&] { return cluster.scales.size() == 2; }));
  EXPECT_EQ(log.count(Event::kActuationWarning), 1U);
  EXPECT_NE(log.lines(Event::kActuationWarning).at(0).find("deployments/scale"), std::string::npos);
  cluster.scale_status = 200;
  ASSERT_TRUE(until([&] { return cluster.pods() == 4; }));
}

TEST_F(KubernetesFleetTest, AnotherClientIsNamedAndNotFought) {
  fleet->set_target(0, 3);
  ASSERT_TRUE(until([&] { return fleet->unknown_because().empty(); }));
  run(500ms);
  cluster.scale(5, "kubectl");
  ASSERT_TRUE(until([&] { return log.count(Event::kPoolHeld) == 1; }));
  EXPECT_NE(log.lines(Event::kPoolHeld).at(0).find("kubectl"), std::string::npos);
  EXPECT_EQ(seen().target_replicas, 5U);
  EXPECT_TRUE(cluster.scales.empty());
  ASSERT_TRUE(until([&] { return cluster.pods() == 3; })) << "after manual_hold the planner goes on";
}

TEST_F(KubernetesFleetTest, AnnotationsOfItsAutoscalerAndOfTheTargetAreFollowed) {
  ASSERT_TRUE(until([&] { return fleet->unknown_because().empty(); }));
  ASSERT_EQ(fleet->annotations(0).size(), 1U);
  EXPECT_EQ(fleet->annotations(0)[0].object, "deployments.apps \"chat\"");
  const Json target = {{"apiVersion", "apps/v1"}, {"kind", "Deployment"}, {"name", "chat"}};
  Json autoscaler = {
      {"metadata", {{"annotations", {{"llm-d.ai/managed", "true"}, {"llm-d.ai/model-id", "org/model"}}}}},
      {"spec", {{"scaleTargetRef", target}, {"minReplicas", 2}, {"maxReplicas", 9}}}};
  cluster.set("horizontalpodautoscalers", "chat-hpa", autoscaler);
  ASSERT_TRUE(until([&] { return fleet->annotations(0).size() == 2; }));
  EXPECT_EQ(fleet->annotations(0)[0].model, "org/model");
  EXPECT_EQ(fleet->annotations(0)[0].max_replicas, 9U);
  autoscaler["spec"]["scaleTargetRef"]["name"] = "other";
  cluster.set("horizontalpodautoscalers", "chat-hpa", autoscaler);
  ASSERT_TRUE(until([&] { return fleet->annotations(0).size() == 1; }));
}

TEST_F(KubernetesFleetTest, NothingIsWrittenWhileAnotherPlannerLeads) {
  leads = false;
  fleet->set_target(0, 6);
  run(1s);
  EXPECT_TRUE(cluster.scales.empty());
  EXPECT_EQ(seen().target_replicas, 3U);
  leads = true;
  EXPECT_TRUE(until([&] { return cluster.pods() == 6; }));
}

}  // namespace
}  // namespace penstock::controller
