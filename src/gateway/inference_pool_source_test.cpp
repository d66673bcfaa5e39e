// Replicas of an InferencePool.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <list>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "gateway/pod_source.h"
#include "net/client_testing.h"
#include "net/server.h"

namespace penstock::gateway {
namespace {

using Json = nlohmann::json;

// An API server with InferencePools and pods. Selectors select by the label `app` only.
class PoolApiServer final : public net::ExchangeHandler {
 public:
  explicit PoolApiServer(net::Loop& loop) {
    const int listening = *net::listen_on(net::Address{}, false);
    address_ = net::local_address(listening);
    server_ = std::make_unique<net::Server>(loop, listening, *this);
    std::string folder = (std::filesystem::temp_directory_path() / "penstock-pool-XXXXXX").string();
    EXPECT_NE(::mkdtemp(folder.data()), nullptr);
    folder_ = folder;
    std::ofstream{kubeconfig()} << "current-context: c\ncontexts: [{name: c, context: {cluster: l, namespace: n}}]\n"
                                << "clusters: [{name: l, cluster: {server: \"http://" << address_.text() << "\"}}]\n";
  }
  ~PoolApiServer() { std::filesystem::remove_all(folder_); }
  PoolApiServer(const PoolApiServer&) = delete;
  PoolApiServer& operator=(const PoolApiServer&) = delete;

  std::vector<std::string> targets;

  [[nodiscard]] std::string kubeconfig() const { return folder_ + "/config"; }
  void set_pool(const Json& spec) { set("inferencepools", "chat", {{"spec", spec}}); }
  void set_pod(const std::string& name, const std::string& app, const std::string& address) {
    set("pods", name,
        {{"metadata", {{"labels", {{"app", app}}}}},
         {"status",
          {{"phase", "Running"}, {"podIP", address}, {"conditions", {{{"type", "Ready"}, {"status", "True"}}}}}}});
  }
  void remove_pool() {
    Json gone = std::exchange(objects_["inferencepools"], {}).at("chat");
    gone["metadata"]["resourceVersion"] = std::to_string(++version_);
    publish("inferencepools", "DELETED", gone);
  }

 private:
  struct Watch final : net::ExchangeListener {
    Watch(PoolApiServer& owner, net::Exchange& its_exchange, std::string its_resource, std::string its_app)
        : server{owner}, exchange{&its_exchange}, resource{std::move(its_resource)}, app{std::move(its_app)} {
      its_exchange.listen(this);
    }
    void on_writable() override {}
    void on_client_gone() override {
      server.watches_.remove_if([this](const Watch& watch) { return &watch == this; });
    }
    PoolApiServer& server;
    net::Exchange* exchange;
    std::string resource, app;
  };

  static bool selects(const std::string& app, const Json& object) {
    return app.empty() || object["metadata"].value("/labels/app"_json_pointer, "") == app;
  }
  void set(const std::string& resource, const std::string& name, Json object) {
    object["metadata"]["name"] = name;
    object["metadata"]["namespace"] = "n";
    object["metadata"]["resourceVersion"] = std::to_string(++version_);
    const bool is_new = !objects_[resource].contains(name);
    objects_[resource][name] = object;
    publish(resource, is_new ? "ADDED" : "MODIFIED", object);
  }
  void publish(const std::string& resource, const char* type, const Json& object) {
    for (const Watch& watch : watches_)
      if (watch.resource == resource) send(watch, type, object);
  }
  static void send(const Watch& watch, const char* type, const Json& object) {
    if (selects(watch.app, object)) watch.exchange->write(Json{{"type", type}, {"object", object}}.dump() + "\n");
  }
  void on_request(net::Exchange& exchange) override {
    const std::string target{exchange.head().target};
    targets.push_back(target);
    const std::string path{exchange.head().path()}, resource = path.substr(path.rfind('/') + 1);
    const std::size_t label = target.find("labelSelector=app%3D");
    const std::string app =
        label == std::string::npos ? "" : target.substr(label + 20, target.find('&', label) - label - 20);
    const std::vector<net::Field> fields{{"Content-Type", "application/json"}};
    if (target.find("watch=") != std::string::npos) {
      exchange.start(200, fields);
      const Watch& watch = watches_.emplace_back(*this, exchange, resource, app);
      // What has changed since the list.
      const auto listed = Json::parse(exchange.head().parameter("resourceVersion")).get<std::uint64_t>();
      for (const auto& [name, object] : objects_[resource])
        if (Json::parse(object["metadata"]["resourceVersion"].get<std::string>()).get<std::uint64_t>() > listed)
          send(watch, "ADDED", object);
      exchange.flush();
      return;
    }
    Json items = Json::array();
    for (const auto& [name, object] : objects_[resource])
      if (selects(app, object)) items.push_back(object);
    const Json list{{"metadata", {{"resourceVersion", std::to_string(version_)}}}, {"items", items}};
    exchange.respond(200, fields, list.dump());
  }
  std::string error_body(int, std::string_view) override { return "{}"; }

  std::uint64_t version_ = 10;
  std::map<std::string, std::map<std::string, Json>> objects_;
  std::list<Watch> watches_;
  net::Address address_;
  std::string folder_;
  std::unique_ptr<net::Server> server_;
};

Json pool_spec(const char* app, std::initializer_list<int> ports) {
  Json spec{{"selector", {{"matchLabels", {{"app", app}}}}}, {"targetPorts", Json::array()}};
  for (const int port : ports) spec["targetPorts"].push_back({{"number", port}});
  return spec;
}

class InferencePoolSource : public ::testing::Test {
 protected:
  void start() {
    PodOptions options;
    options.inference_pool = "chat";
    options.kubeconfig = server.kubeconfig();
    auto started = PodSource::start(loop, options,
                                    {[this](const std::vector<ReplicaEndpoint>& replicas) {
                                       found.clear();
                                       for (const ReplicaEndpoint& replica : replicas)
                                         found.push_back(replica.id + " " + replica.url);
                                       ++reports;
                                     },
                                     [this](const std::string& error) { errors.push_back(error); }});
    ASSERT_TRUE(started) << started.error().message();
    source = *std::move(started);
  }
  template <class Condition>
  bool until(Condition condition) {
    for (int turn = 0; turn < 10'000 && !condition(); ++turn) net::testing::run_for(loop, std::chrono::milliseconds{1});
    return condition();
  }
  using Texts = std::vector<std::string>;

  net::Loop loop;
  PoolApiServer server{loop};
  std::unique_ptr<PodSource> source;
  Texts found, errors;
  int reports = 0;
};

TEST_F(InferencePoolSource, FollowsThePodsThatItSelectsAtItsPort) {
  server.set_pool(pool_spec("vllm", {8200}));
  server.set_pod("a", "vllm", "10.0.0.1");
  server.set_pod("b", "other", "10.0.0.2");
  start();
  EXPECT_TRUE(until([&] { return found == Texts{"a http://10.0.0.1:8200"}; }));
  server.set_pod("c", "vllm", "10.0.0.3");
  EXPECT_TRUE(until([&] { return found == Texts{"a http://10.0.0.1:8200", "c http://10.0.0.3:8200"}; }));
  EXPECT_TRUE(errors.empty()) << errors[0];
  EXPECT_EQ(server.targets.at(0),
            "/apis/inference.networking.k8s.io/v1/namespaces/n/inferencepools?limit=500&fieldSelector="
            "metadata.name%3Dchat");
}

TEST_F(InferencePoolSource, EachOfSeveralPortsIsAReplica) {
  server.set_pool(pool_spec("vllm", {8000, 8001}));
  server.set_pod("a", "vllm", "10.0.0.1");
  start();
  EXPECT_TRUE(until([&] { return found == Texts{"a:8000 http://10.0.0.1:8000", "a:8001 http://10.0.0.1:8001"}; }));
}

TEST_F(InferencePoolSource, AChangeOfThePoolTakesEffectAndNoReplicaGoesMeanwhile) {
  server.set_pool(pool_spec("vllm", {8000}));
  server.set_pod("a", "vllm", "10.0.0.1");
  server.set_pod("b", "new", "10.0.0.2");
  start();
  ASSERT_TRUE(until([&] { return reports == 1; }));
  server.set_pool(pool_spec("vllm", {8100}));
  ASSERT_TRUE(until([&] { return reports == 2; }));
  EXPECT_EQ(found, Texts{"a http://10.0.0.1:8100"});
  server.set_pool(pool_spec("new", {8100}));
  ASSERT_TRUE(until([&] { return reports == 3; }));
  EXPECT_EQ(found, Texts{"b http://10.0.0.2:8100"});
  EXPECT_TRUE(errors.empty()) << errors[0];
}

TEST_F(InferencePoolSource, APoolThatDoesNotExistIsNamedAndWaitedFor) {
  server.set_pod("a", "vllm", "10.0.0.1");
  start();
  ASSERT_TRUE(until([&] { return !errors.empty(); }));
  EXPECT_EQ(errors[0],
            "gateway.kubernetes.inference_pool: there is no InferencePool \"chat\" of inference.networking.k8s.io in "
            "the namespace \"n\"; the gateway waits for it");
  EXPECT_EQ(reports, 1);
  server.set_pool(pool_spec("vllm", {8000}));
  EXPECT_TRUE(until([&] { return found == Texts{"a http://10.0.0.1:8000"}; }));
  server.remove_pool();
  EXPECT_TRUE(until([&] { return found.empty(); }));
  EXPECT_EQ(errors.size(), 2U);
}

TEST_F(InferencePoolSource, APoolWithoutAPortHasNoReplicas) {
  server.set_pool(pool_spec("vllm", {}));
  server.set_pod("a", "vllm", "10.0.0.1");
  start();
  ASSERT_TRUE(until([&] { return !errors.empty(); }));
  EXPECT_NE(errors[0].find("needs labels in spec.selector and a port"), std::string::npos) << errors[0];
  EXPECT_TRUE(found.empty());
}

}  // namespace
}  // namespace penstock::gateway
