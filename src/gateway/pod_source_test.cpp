#include "gateway/pod_source.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "connect/kubernetes/api_server_testing.h"
#include "net/client_testing.h"

namespace penstock::gateway {
namespace {

using Json = nlohmann::json;
using Phase = dispatch::ReplicaPhase;

Json pod(const char* name, const char* address, const char* ready) {
  return {{"metadata", {{"name", name}, {"namespace", "prod"}, {"labels", {{"app", "vllm"}}}}},
          {"status",
           {{"phase", "Running"},
            {"podIP", address},
            {"conditions", {{{"type", "Initialized"}, {"status", "True"}}, {{"type", "Ready"}, {"status", ready}}}}}}};
}

std::vector<ReplicaEndpoint> replicas(const std::vector<Json>& objects) {
  std::map<std::string, connect::PodState> pods;
  for (const Json& object : objects)
    pods.emplace("prod/" + connect::parse_pod(object).name, connect::parse_pod(object));
  return replicas_of(pods, PodOptions{});
}

TEST(PodSource, ReadyPodsServeOthersWarmUpAndTerminatingOnesDrain) {
  Json terminating = pod("c", "10.0.0.3", "True");
  terminating["metadata"]["deletionTimestamp"] = "2026-11-22T13:26:21Z";
  const auto found =
      replicas({pod("a", "10.0.0.1", "True"), pod("b", "10.0.0.2", "False"), terminating, pod("d", "fd00::4", "True")});
  ASSERT_EQ(found.size(), 4U);
  EXPECT_EQ(found[0].id, "a");
  EXPECT_EQ(found[0].url, "http://10.0.0.1:8000");
  EXPECT_EQ(found[0].phase, Phase::kServing);
  EXPECT_EQ(found[1].phase, Phase::kWarming);
  EXPECT_EQ(found[2].phase, Phase::kDraining);
  EXPECT_EQ(found[3].url, "http://[fd00::4]:8000");
}

TEST(PodSource, APodThatAPlannerMarkedDrains) {
  Json marked = pod("a", "10.0.0.1", "True");
  marked["metadata"]["annotations"][connect::kDrainAnnotation] = "true";
  const auto found = replicas({marked});
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].phase, Phase::kDraining);
}

TEST(PodSource, ALabelNamesThePoolOfAPod) {
  Json labelled = pod("a", "10.0.0.1", "True");
  labelled["metadata"]["labels"]["penstock/pool"] = "long";
  const auto found = replicas({labelled, pod("b", "10.0.0.2", "True")});
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].pool, "long");
  EXPECT_EQ(found[1].pool, "default");
}

TEST(PodSource, TheLeaderOfAGroupIsTheReplicaAndServesWhenAllPodsAreReady) {
  const auto member = [](const char* name, const char* index, const char* ready) {
    Json made = pod(name, "10.0.0.1", ready);
    made["metadata"]["labels"]["leaderworkerset.sigs.k8s.io/name"] = "chat";
    made["metadata"]["labels"]["leaderworkerset.sigs.k8s.io/group-index"] = "0";
    made["metadata"]["labels"]["leaderworkerset.sigs.k8s.io/worker-index"] = index;
    return made;
  };
  for (const char* ready : {"True", "False"}) {
    const auto found = replicas({member("chat-0", "0", "True"), member("chat-0-1", "1", ready)});
    ASSERT_EQ(found.size(), 1U);
    EXPECT_EQ(found[0].id, "chat-0");
    EXPECT_EQ(found[0].phase, ready == std::string{"True"} ? Phase::kServing : Phase::kWarming);
  }
  EXPECT_EQ(replicas({member("chat-0", "0", "True")}).at(0).phase, Phase::kServing) << "workers are not selected";
}

TEST(PodSource, PodsWithoutAnAddressAndEndedOnesAreNoReplicas) {
  Json pending = pod("a", "", "False"), failed = pod("b", "10.0.0.2", "False"), bare = Json::object();
  failed["status"]["phase"] = "Failed";
  bare["metadata"]["name"] = "c";
  EXPECT_TRUE(replicas({pending, failed, bare}).empty());
}

TEST(PodSource, TakesTheRoleFromTheLabelOfLlmd) {
  Json prefill = pod("a", "10.0.0.1", "True"), decode = pod("b", "10.0.0.2", "True"),
       both = pod("c", "10.0.0.3", "True");
  prefill["metadata"]["labels"]["llm-d.ai/role"] = "prefill";
  decode["metadata"]["labels"]["llm-d.ai/role"] = "decode";
  both["metadata"]["labels"]["llm-d.ai/role"] = "prefill-decode";
  const auto found = replicas({prefill, decode, both});
  EXPECT_EQ(found[0].role, signals::Role::kPrefill);
  EXPECT_EQ(found[1].role, signals::Role::kDecode);
  EXPECT_EQ(found[2].role, signals::Role::kAggregated);
}

// Slices of a Service with one port "http" 8000 beside "metrics" 9090.
connect::EndpointSlice slice(std::vector<connect::SliceEndpoint> endpoints) {
  return {{{"http", 8000}, {"metrics", 9090}}, std::move(endpoints)};
}

PodOptions of_service(const char* port_name = "") {
  PodOptions options;
  options.service = "chat";
  options.port_name = port_name;
  return options;
}

TEST(PodSource, EndpointsOfAllSlicesOfAServiceAreReplicas) {
  const auto found = replicas_of({{"n/a", slice({{"chat-1", "10.0.0.1", true, false}, {"", "10.0.0.2", false, false}})},
                                  {"n/b", slice({{"chat-3", "10.0.0.3", true, true}, {"chat-4", "not an address"}})}},
                                 {}, of_service());
  ASSERT_EQ(found.size(), 3U);
  EXPECT_EQ(found[0].id, "10.0.0.2:8000");
  EXPECT_EQ(found[0].phase, Phase::kWarming);
  EXPECT_EQ(found[1].id, "chat-1");
  EXPECT_EQ(found[1].url, "http://10.0.0.1:8000");
  EXPECT_EQ(found[1].phase, Phase::kServing);
  EXPECT_EQ(found[2].phase, Phase::kDraining);
  EXPECT_EQ(replicas_of({{"n/a", slice({{"chat-1", "10.0.0.1"}})}}, {}, of_service("metrics")).at(0).url,
            "http://10.0.0.1:9090");
}

TEST(PodSource, AnEndpointInSeveralSlicesIsOneReplica) {
  const auto found = replicas_of({{"n/a", slice({{"chat-1", "fd00::1"}, {"chat-2", "10.0.0.2"}})},
                                  {"n/b", slice({{"chat-1", "10.0.0.1"}, {"chat-2", "10.0.0.2", true, true}})}},
                                 {}, of_service());
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].url, "http://10.0.0.1:8000");
  EXPECT_EQ(found[1].phase, Phase::kDraining);
}

TEST(PodSource, PodsOfASelectorAddRolesAndMarksToTheEndpointsOfAService) {
  Json marked = pod("chat-1", "10.0.0.1", "True");
  marked["metadata"]["annotations"][connect::kDrainAnnotation] = "true";
  marked["metadata"]["labels"]["llm-d.ai/role"] = "prefill";
  const auto found = replicas_of({{"n/a", slice({{"chat-1", "10.0.0.1"}, {"chat-2", "10.0.0.2"}})}},
                                 {{"n/chat-1", connect::parse_pod(marked)}}, of_service());
  EXPECT_EQ(found.at(0).phase, Phase::kDraining);
  EXPECT_EQ(found.at(0).role, signals::Role::kPrefill);
  EXPECT_EQ(found.at(1).phase, Phase::kServing);
}

TEST(PodSource, AServiceWithoutEndpointsOrThePortIsNamed) {
  EXPECT_EQ(missing_replicas({}, of_service(), "n"),
            "gateway.kubernetes.service: the Service \"chat\" in the namespace \"n\" has no endpoints; check its name, "
            "and that its selector matches pods");
  EXPECT_EQ(missing_replicas({{"n/a", slice({{"a", "10.0.0.1"}})}}, of_service("grpc"), "n"),
            "gateway.kubernetes: the Service \"chat\" has no port \"grpc\"; it has http (8000), metrics (9090); set "
            "gateway.kubernetes.port_name");
  EXPECT_EQ(missing_replicas({{"n/a", slice({{"a", "10.0.0.1"}})}}, of_service(), "n"), "");
}

TEST(PodSource, NamesAKubeconfigThatCannotBeUsed) {
  PodOptions options;
  options.kubeconfig = "/no/such/file";
  EXPECT_TRUE(check_pod_options(options));  // Without a selector no pods are followed.
  options.selector = "app=vllm";
  const auto checked = check_pod_options(options);
  ASSERT_FALSE(checked);
  EXPECT_TRUE(checked.error().message().starts_with("gateway.kubernetes: /no/such/file")) << checked.error().message();
  net::Loop loop;
  EXPECT_FALSE(PodSource::start(loop, options, {}));
  options.kubeconfig.clear();
  EXPECT_TRUE(check_pod_options(options));  // The machine of the gateway is another one.
}

TEST(PodSource, ReportsOnlyChangesOfReplicas) {
  net::Loop loop;
  connect::testing::TestApiServer server{loop};
  std::string file = (std::filesystem::temp_directory_path() / "penstock-pods-XXXXXX").string();
  ASSERT_NE(::mkdtemp(file.data()), nullptr);
  const std::string folder = file;
  file += "/config";
  std::ofstream{file} << "current-context: c\ncontexts: [{name: c, context: {cluster: l, namespace: n}}]\n"
                      << "clusters: [{name: l, cluster: {server: \"http://" << server.address().text() << "\"}}]\n";
  server.set("a");
  int reports = 0;
  PodOptions options;
  options.selector = "app=vllm";
  options.kubeconfig = file;
  auto source = PodSource::start(loop, options,
                                 {[&](std::vector<ReplicaEndpoint> found) {
                                    EXPECT_TRUE(found.empty());  // No address yet.
                                    ++reports;
                                  },
                                  [](const std::string& error) { ADD_FAILURE() << error; }});
  ASSERT_TRUE(source) << source.error().message();
  for (int turn = 0; turn < 10'000 && server.watches() == 0; ++turn)
    net::testing::run_for(loop, std::chrono::milliseconds{1});
  EXPECT_EQ(reports, 1);
  server.set("b");
  net::testing::run_for(loop, std::chrono::milliseconds{20});
  EXPECT_EQ(reports, 1);
  EXPECT_EQ(server.targets[0], "/api/v1/namespaces/n/pods?limit=500&labelSelector=app%3Dvllm");
  source->reset();

  // A selector that matches nothing is reported once, and a Service's slices are listed by their label.
  server.remove("a");
  server.remove("b");
  server.targets.clear();
  options.service = "chat";
  std::vector<std::string> errors;
  for (const char* selector : {"app=vllm", ""}) {
    options.selector = selector;
    if (*selector != 0) options.service.clear();
    auto missing = PodSource::start(loop, options,
                                    {[&](std::vector<ReplicaEndpoint> found) { EXPECT_TRUE(found.empty()); },
                                     [&](const std::string& error) { errors.push_back(error); }});
    net::testing::run_for(loop, std::chrono::milliseconds{100});
    options.service = "chat";
  }
  ASSERT_EQ(errors.size(), 2U);
  EXPECT_NE(errors[0].find("no pod in the namespace \"n\" has the labels app=vllm"), std::string::npos) << errors[0];
  EXPECT_NE(errors[1].find("the Service \"chat\" in the namespace \"n\" has no endpoints"), std::string::npos);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace penstock::gateway
