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
  return replicas_of(pods, 8000);
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
  auto source = PodSource::start(loop, {"app=vllm", "", file, 8000},
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
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace penstock::gateway
