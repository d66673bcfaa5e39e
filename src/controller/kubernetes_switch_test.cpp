// Pods that go from one Deployment to another, against a scripted API server whose ReplicaSets release and adopt pods.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "controller/kubernetes_fleet.h"
#include "logging/log_testing.h"
#include "net/client_testing.h"
#include "net/server.h"

namespace penstock::controller {
namespace {

using Json = nlohmann::json;
using namespace std::chrono_literals;

const std::vector<std::string> kDeployments{"prefill", "decode"};

// Lists objects and answers each watch with an end, so that the next list has all changes.
class TwoDeployments final : public net::ExchangeHandler {
 public:
  explicit TwoDeployments(net::Loop& loop) {
    const int listening = *net::listen_on(net::Address{}, false);
    address = net::local_address(listening);
    server_ = std::make_unique<net::Server>(loop, listening, *this);
    scale("prefill", 3);
    scale("decode", 1);
    for (auto& [name, pod] : pods) ready(name);
  }

  net::Address address;
  std::map<std::string, Json> pods;
  std::map<std::string, std::uint32_t> replicas;
  std::vector<std::string> deleted, calls;  // Names; bodies of requests that change something.
  bool has_replica_sets = true;

  void ready(const std::string& name) {
    pods.at(name)["status"]["conditions"] = {{{"type", "Ready"}, {"status", "True"}}};
    touch(pods.at(name));
  }
  [[nodiscard]] std::vector<std::string> pods_of(const std::string& deployment) const {
    std::vector<std::string> names;
    for (const auto& [name, pod] : pods)
      if (pod["metadata"]["labels"]["app"] == deployment) names.push_back(name);
    return names;
  }

 private:
  void touch(Json& object) { object["metadata"]["resourceVersion"] = std::to_string(++version_); }

  void scale(const std::string& deployment, std::uint32_t count) {
    replicas[deployment] = count;
    ++version_;
    reconcile();
  }
  // As the controller of ReplicaSets.
  void reconcile() {
    for (const std::string& deployment : kDeployments) {
      for (auto& [name, pod] : pods) {
        Json& owners = pod["metadata"]["ownerReferences"];
        const bool is_selected = pod["metadata"]["labels"]["app"] == deployment;
        const bool is_owned = !owners.empty() && owners[0]["uid"] == deployment + "-set";
        if (is_owned == is_selected || (is_selected && !owners.empty())) continue;
        owners = is_selected ? Json{{{"uid", deployment + "-set"}, {"controller", true}}} : Json::array();
        touch(pod);
      }
    }
    for (const std::string& deployment : kDeployments) {
      std::vector<std::string> names = pods_of(deployment);
      for (std::size_t i = names.size(); i < replicas[deployment]; ++i) make(deployment);
      std::sort(names.begin(), names.end(), [this](const std::string& left, const std::string& right) {
        const auto key = [this](const std::string& name) {
          const Json& pod = pods.at(name);
          const std::string cost =
              pod["metadata"]["annotations"].value("controller.kubernetes.io/pod-deletion-cost", "0");
          return std::tuple{pod["status"].contains("conditions"), cost != "-2000000000", cost != "-1000000000", name};
        };
        return key(left) < key(right);
      });
      for (std::size_t i = 0; i + replicas[deployment] < names.size(); ++i) {
        deleted.push_back(names[i]);
        pods.erase(names[i]);
      }
    }
  }
  void make(const std::string& deployment) {
    const std::string name = deployment + "-" + std::to_string(names_++);
    Json pod{{"metadata",
              {{"name", name},
               {"namespace", "prod"},
               {"uid", name},
               {"annotations", Json::object()},
               {"labels", {{"app", deployment}, {"penstock/pool", deployment}, {"added", "by a webhook"}}},
               {"ownerReferences", {{{"uid", deployment + "-set"}, {"controller", true}}}}}},
             {"spec", {{"nodeName", "n"}}},
             {"status", {{"podIP", "127.0.0.1"}}}};
    touch(pod);
    pods[name] = pod;
  }

  void on_request(net::Exchange& exchange) override {
    const std::string path{exchange.head().path()};
    const auto respond = [&](int status, const Json& body) {
      exchange.respond(status, std::vector<net::Field>{{"Content-Type", "application/json"}}, body.dump());
    };
    const std::string last = path.substr(path.rfind('/') + 1);
    const bool is_patch = exchange.head().method == "PATCH";
    for (const std::string& deployment : kDeployments) {
      if (!path.ends_with("/deployments/" + deployment + "/scale")) continue;
      if (is_patch) {
        calls.push_back(deployment + " " + Json::parse(exchange.body())["spec"]["replicas"].dump());
        scale(deployment, Json::parse(exchange.body())["spec"]["replicas"]);
      }
      return respond(200, {{"kind", "Scale"},
                           {"metadata", {{"resourceVersion", version_text()}}},
                           {"spec", {{"replicas", replicas[deployment]}}},
                           {"status", {{"replicas", pods_of(deployment).size()}, {"selector", "app=" + deployment}}}});
    }
    if (is_patch && pods.contains(last)) {
      const Json body = Json::parse(exchange.body());
      if (body["metadata"].contains("labels")) calls.push_back("move " + last);
      pods[last].merge_patch(body);
      touch(pods[last]);
      const Json answer = pods[last];
      reconcile();
      return respond(200, answer);
    }
    Json items = Json::array();
    const std::string selector = exchange.head().decoded_parameter("labelSelector");
    const std::string field = exchange.head().decoded_parameter("fieldSelector");
    if (last == "pods")
      for (const auto& [name, pod] : pods)
        if (selector == "app=" + pod["metadata"]["labels"]["app"].get<std::string>()) items.push_back(pod);
    for (const std::string& deployment : kDeployments) {
      if (last == "deployments" && field == "metadata.name=" + deployment)
        items.push_back({{"metadata",
                          {{"name", deployment},
                           {"namespace", "prod"},
                           {"uid", deployment},
                           {"resourceVersion", version_text()}}}});
      if (last == "replicasets" && has_replica_sets && selector == "app=" + deployment)
        items.push_back(
            {{"metadata",
              {{"name", deployment + "-set"},
               {"namespace", "prod"},
               {"uid", deployment + "-set"},
               {"resourceVersion", version_text()},
               {"ownerReferences", {{{"uid", deployment}, {"controller", true}}}}}},
             {"spec",
              {{"replicas", replicas[deployment]},
               {"template", {{"metadata", {{"labels", {{"app", deployment}, {"penstock/pool", deployment}}}}}}}}}});
    }
    if (exchange.head().parameter("watch") == "1")
      return respond(410, {{"kind", "Status"}, {"reason", "Expired"}, {"code", 410}});
    respond(200, {{"metadata", {{"resourceVersion", version_text()}}}, {"items", items}});
  }
  std::string error_body(int, std::string_view) override { return "{}"; }
  [[nodiscard]] std::string version_text() const { return std::to_string(version_); }

  std::int64_t version_ = 1;
  int names_ = 0;
  std::unique_ptr<net::Server> server_;
};

// All pods have this address and port.
class SwitchingEngines final : public net::ExchangeHandler {
 public:
  explicit SwitchingEngines(net::Loop& loop) {
    const int listening = *net::listen_on(net::Address{}, false);
    port = net::local_address(listening).port();
    server_ = std::make_unique<net::Server>(loop, listening, *this);
  }
  void on_request(net::Exchange& exchange) override {
    if (exchange.head().path() == "/pd_role_switch") {
      requests.emplace_back(exchange.body());
      return exchange.respond(status, {}, "{}");
    }
    exchange.respond(200, {},
                     "# TYPE " + metric + "num_requests_running gauge\n" + metric +
                         "num_requests_running{model_name=\"m\"} 0\n# TYPE " + metric + "num_requests_waiting gauge\n" +
                         metric + "num_requests_waiting{model_name=\"m\"} 0\n" + more);
  }
  std::string error_body(int, std::string_view) override { return {}; }

  std::vector<std::string> requests;  // Bodies.
  int status = 200;
  std::string metric = "vllm:",
              more = "# TYPE penstock_engine_kv_transfers_open gauge\npenstock_engine_kv_transfers_open 0\n";
  std::uint16_t port = 0;

 private:
  std::unique_ptr<net::Server> server_;
};

class KubernetesSwitchTest : public testing::Test {
 protected:
  KubernetesSwitchTest() {
    options.api.access.server = *net::parse_url("http://" + cluster.address.text());
    options.api.backoff = {1ms, 5ms};
    options.api.requests_per_s = 10'000.0;
    options.api.burst = 10'000;
    options.api.may_write = [] { return true; };
    options.in_namespace = "prod";
    options.port = engines.port;
    options.engines.interval = 50ms;
    options.limits.mark_delay = 50ms;
    options.limits.unknown_age = 200ms;
    for (const std::string& name : kDeployments) {
      KubernetesPool pool{name, *connect::parse_scale_target("deployment/" + name)};
      pool.role = name == "prefill" ? signals::Role::kPrefill : signals::Role::kDecode;
      pool.role_switch = {name == "prefill" ? "decode" : "prefill", 1s, 60s};
      options.pools.push_back(pool);
    }
    start();
  }
  void start() {
    fleet.reset();
    fleet = *KubernetesFleet::start(loop, client, log, options);
  }
  void want(std::uint32_t prefill, std::uint32_t decode) {
    fleet->set_target(0, prefill);
    fleet->set_target(1, decode);
  }
  void run(core::Duration time) {
    for (core::Duration passed{}; passed < time; passed += 20ms) {
      net::testing::run_for(loop, 20ms);
      GatewayState state;
      for (std::size_t pool : {0U, 1U})
        for (const ReplicaView& view : fleet->replicas(pool)) {
          GatewayReplica& made = state.replicas[view.name];
          made.eligible = view.seen.state == signals::ReplicaState::kReady;
          made.open_requests = open;
          made.model = "m";
        }
      fleet->update_gateway(state, loop.now());
    }
  }
  template <class Condition>
  bool until(Condition holds) {
    for (int turn = 0; turn < 1000 && !holds(); ++turn) run(20ms);
    return holds();
  }
  bool is_settled(std::uint32_t prefill, std::uint32_t decode) {
    const auto is_serving = [this](const auto& each) {
      return !each.second["metadata"]["annotations"].contains("penstock/draining");
    };
    return cluster.replicas["prefill"] == prefill && cluster.replicas["decode"] == decode &&
           cluster.pods_of("prefill").size() == prefill && cluster.pods_of("decode").size() == decode &&
           std::all_of(cluster.pods.begin(), cluster.pods.end(), is_serving);
  }
  signals::PoolObservation seen(std::size_t pool) const {
    signals::PoolObservation made;
    fleet->fill(pool, made);
    return made;
  }

  net::Loop loop;
  net::Client client{loop};
  logging::testing::CapturedLog log;
  TwoDeployments cluster{loop};
  SwitchingEngines engines{loop};
  std::uint32_t open = 0;  // On each pod.
  KubernetesFleetOptions options;
  std::unique_ptr<KubernetesFleet> fleet;
};

TEST_F(KubernetesSwitchTest, ADrainedPodGetsTheRoleAndTheLabelsOfTheOtherDeployment) {
  ASSERT_TRUE(until([&] { return seen(0).ready == 3 && seen(1).ready == 1; }));
  open = 1;
  want(2, 2);
  ASSERT_TRUE(until([&] { return seen(0).draining == 1 && seen(1).switching == 1; }));
  run(500ms);
  EXPECT_EQ(cluster.replicas["decode"], 1U) << "nothing is started meanwhile";
  const auto views = fleet->replicas(0);
  EXPECT_TRUE(
      std::any_of(views.begin(), views.end(), [](const ReplicaView& view) { return view.switch_to == "decode"; }));
  open = 0;
  ASSERT_TRUE(until([&] { return is_settled(2, 2); }));
  EXPECT_EQ(engines.requests, (std::vector<std::string>{R"({"new_role":"decode"})"}));
  EXPECT_EQ(cluster.calls, (std::vector<std::string>{"decode 2", "move prefill-0", "prefill 2"}));
  const Json& moved = cluster.pods.at("prefill-0")["metadata"];
  EXPECT_EQ(moved["labels"], (Json{{"app", "decode"}, {"penstock/pool", "decode"}, {"added", "by a webhook"}}));
  EXPECT_EQ(moved["annotations"]["penstock/role"], "decode/0");
  EXPECT_EQ(cluster.deleted, (std::vector<std::string>{"decode-4", "prefill-5"})) << "those that were made meanwhile";
  EXPECT_TRUE(until([&] { return fleet->role_switches(1) == 1 && seen(1).ready == 2; }));
  EXPECT_EQ(fleet->role_switches(0), 0U);
}

TEST_F(KubernetesSwitchTest, AnEngineThatRefusesIsReportedOnceAndNothingMoves) {
  engines.status = 400;
  want(2, 2);
  ASSERT_TRUE(until([&] { return engines.requests.size() > 1; }));
  EXPECT_EQ(cluster.replicas["decode"], 1U);
  EXPECT_EQ(log.count(logging::Event::kActuationWarning), 1U);
  want(3, 1);  // The pod is needed again: its engine gets the role of its pool first.
  run(300ms);
  EXPECT_TRUE(cluster.pods.at("prefill-0")["metadata"]["annotations"].contains("penstock/draining"));
  engines.status = 200;
  ASSERT_TRUE(until([&] { return is_settled(3, 1); }));
  EXPECT_EQ(engines.requests.back(), R"({"new_role":"prefill"})");
  EXPECT_EQ(cluster.pods.at("prefill-0")["metadata"]["annotations"]["penstock/role"], "prefill/0");
}

TEST_F(KubernetesSwitchTest, VllmIsNotAskedBecauseItsRoleIsThatOfItsLabels) {
  engines.more.clear();
  want(2, 2);
  ASSERT_TRUE(until([&] { return is_settled(2, 2); }));
  EXPECT_TRUE(engines.requests.empty());
}

TEST_F(KubernetesSwitchTest, AnotherPlannerGoesOnWhereTheFormerOneEnded) {
  want(2, 2);
  ASSERT_TRUE(until([&] { return !cluster.calls.empty(); }));
  start();
  want(2, 2);
  ASSERT_TRUE(until([&] { return is_settled(2, 2); }));
  EXPECT_TRUE(cluster.pods.contains("prefill-0"));
  for (const std::string& name : cluster.deleted)
    EXPECT_GE(name.substr(name.rfind('-') + 1), "4") << "a pod that has served was deleted";
}

TEST_F(KubernetesSwitchTest, AnEngineThatRestartedGetsItsRoleAgainBeforeItServes) {
  want(2, 2);
  ASSERT_TRUE(until([&] { return is_settled(2, 2); }));
  engines.status = 503;
  engines.requests.clear();
  cluster.pods.at("prefill-0")["status"]["containerStatuses"] = {{{"restartCount", 1}}};
  cluster.ready("prefill-0");
  ASSERT_TRUE(until([&] { return !engines.requests.empty(); }));
  EXPECT_TRUE(cluster.pods.at("prefill-0")["metadata"]["annotations"].contains("penstock/draining"));
  engines.status = 200;
  ASSERT_TRUE(until([&] { return is_settled(2, 2); }));
  EXPECT_EQ(engines.requests.back(), R"({"new_role":"decode"})");
  EXPECT_EQ(cluster.pods.at("prefill-0")["metadata"]["annotations"]["penstock/role"], "decode/1");
}

TEST_F(KubernetesSwitchTest, WithoutReplicaSetsNothingMoves) {
  cluster.has_replica_sets = false;
  start();
  want(2, 2);
  run(1s);
  EXPECT_EQ(std::count(cluster.calls.begin(), cluster.calls.end(), "move prefill-0"), 0);
}

}  // namespace
}  // namespace penstock::controller
