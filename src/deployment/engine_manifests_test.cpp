#include "deployment/engine_manifests.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace penstock::deployment {
namespace {

using Json = nlohmann::ordered_json;

EngineManifest two_pools() {
  EngineManifest made;
  made.name = "penstock-engines";
  made.in_namespace = "llm";
  made.image = "engine:1";
  made.service = "chat";
  made.drain_time_s = 60;
  for (const char* name : {"interactive", "batch"}) {
    EnginePool pool;
    pool.pool = name;
    pool.deployment = std::string{"llm-"} + name;
    pool.labels = {{"app", "chat"}};
    pool.weights = "Qwen/Qwen3-32B";
    pool.served_model = "qwen";
    pool.cpu = "4";
    pool.memory = "16Gi";
    made.pools.push_back(pool);
  }
  return made;
}

const Json& engine_object(const std::vector<Json>& objects, const std::string& kind, const std::string& name) {
  static const Json none;
  const auto at = std::find_if(objects.begin(), objects.end(), [&](const Json& each) {
    return each["kind"] == kind && each["metadata"]["name"] == name;
  });
  return at == objects.end() ? none : *at;
}
Json template_of(const EngineManifest& engine, const std::string& deployment = "llm-interactive") {
  return engine_object(manifests_of(engine), "Deployment", deployment)["spec"]["template"];
}
Json engine_container(const EngineManifest& engine) { return template_of(engine)["spec"]["containers"][0]; }
// The word after a flag; null without the flag.
Json value_of(const Json& words, const char* flag) {
  const auto at = std::find(words.begin(), words.end(), flag);
  return at == words.end() ? Json{} : *(at + 1);
}

TEST(EngineManifests, EachPoolHasADeploymentWhosePodsTheGatewayFinds) {
  const EngineManifest engine = two_pools();
  for (const EnginePool& pool : engine.pools) {
    const Json labels = template_of(engine, pool.deployment)["metadata"]["labels"];
    EXPECT_EQ(labels["app"], "chat");
    EXPECT_EQ(labels["penstock/pool"], pool.pool);
    const Json selector =
        engine_object(manifests_of(engine), "Deployment", pool.deployment)["spec"]["selector"]["matchLabels"];
    for (const auto& [key, value] : selector.items()) EXPECT_EQ(labels[key], value) << key;
    EXPECT_EQ(selector["penstock/pool"], pool.pool);
  }
}

TEST(EngineManifests, LabelsOfTheGatewayGoBeforeOnesOwn) {
  EngineManifest engine = two_pools();
  engine.pools[0].labels["app.kubernetes.io/name"] = "chat";
  EXPECT_EQ(template_of(engine)["metadata"]["labels"]["app.kubernetes.io/name"], "chat");
}

TEST(EngineManifests, TheNumberOfReplicasIsNotSet) {
  const auto objects = manifests_of(two_pools());
  EXPECT_FALSE(engine_object(objects, "Deployment", "llm-batch")["spec"].contains("replicas"));
}

TEST(EngineManifests, TheGraceCoversTheNoticeAndTheDrain) {
  EngineManifest engine = two_pools();
  const auto notice = [&] {
    return engine_container(engine)["lifecycle"]["preStop"]["sleep"]["seconds"].get<std::int64_t>();
  };
  const auto grace = [&] { return template_of(engine)["spec"]["terminationGracePeriodSeconds"].get<std::int64_t>(); };
  EXPECT_EQ(value_of(engine_container(engine)["args"], "--shutdown-timeout"), "60");
  EXPECT_EQ(notice(), 5);
  EXPECT_GT(grace(), notice() + 60);
  // Triton cuts requests at SIGTERM.
  engine.kind = EngineKind::kTriton;
  EXPECT_EQ(notice(), 65);
  EXPECT_GT(grace(), notice());
}

TEST(EngineManifests, AStartMayTakeThreeTimesItsTimeAndHalfAnHour) {
  EngineManifest engine = two_pools();
  const auto limit = [&] {
    const Json probe = engine_container(engine)["startupProbe"];
    return probe["periodSeconds"].get<std::int64_t>() * probe["failureThreshold"].get<std::int64_t>();
  };
  engine.pools[0].start_up_s = 120;
  EXPECT_EQ(limit(), 1800);
  engine.pools[0].start_up_s = 1200;
  EXPECT_EQ(limit(), 3600);
  EXPECT_GT(engine_object(manifests_of(engine), "Deployment", "llm-interactive")["spec"]["progressDeadlineSeconds"],
            3600);
}

TEST(EngineManifests, OfFourPodsOneMayGo) {
  const auto objects = manifests_of(two_pools());
  const Json& budget = engine_object(objects, "PodDisruptionBudget", "llm-batch")["spec"];
  EXPECT_EQ(budget["maxUnavailable"], "20%");
  EXPECT_FALSE(budget.contains("minAvailable"));
}

TEST(EngineManifests, PodsThatStayAreAShareOrANumber) {
  EngineManifest engine = two_pools();
  const auto least = [&](const char* text) {
    engine.pools[0].min_available = text;
    return engine_object(manifests_of(engine), "PodDisruptionBudget", "llm-interactive")["spec"]["minAvailable"].dump();
  };
  EXPECT_EQ(least("80%"), "\"80%\"");
  EXPECT_EQ(least("2"), "2") << "Kubernetes refuses a number as text";
}

TEST(EngineManifests, LimitsOfTheConfigurationAreFlagsOfTheEngine) {
  EngineManifest engine = two_pools();
  EnginePool& pool = engine.pools[0];
  pool.tensor_parallel = 2;
  pool.pipeline_parallel = 2;
  pool.max_sequences = 64;
  pool.max_batched_tokens = 4096;
  pool.prefix_caching = pool.chunked_prefill = false;
  pool.scheduling.by_priority = true;
  pool.gpu_memory = 0.85;
  pool.arguments = {"--quantization=fp8"};
  engine.context_tokens = 32768;
  EXPECT_EQ(engine_container(engine)["args"].dump(),
            R"(["Qwen/Qwen3-32B","--served-model-name","qwen","--port","8000","--tensor-parallel-size","2",)"
            R"("--pipeline-parallel-size","2","--max-num-seqs","64","--max-num-batched-tokens","4096",)"
            R"("--gpu-memory-utilization","0.85","--max-model-len","32768","--no-enable-prefix-caching",)"
            R"("--no-enable-chunked-prefill","--enable-prompt-tokens-details","--scheduling-policy","priority",)"
            R"("--shutdown-timeout","60","--quantization=fp8"])");
  EXPECT_EQ(engine_container(engine)["resources"]["limits"]["nvidia.com/gpu"], 4);
  EXPECT_EQ(template_of(engine)["spec"]["volumes"][1]["emptyDir"]["sizeLimit"], "8Gi");
  engine.kind = EngineKind::kSglang;
  EXPECT_EQ(engine_container(engine)["args"].dump(),
            R"(["--model-path","Qwen/Qwen3-32B","--served-model-name","qwen","--host","0.0.0.0","--port","8000",)"
            R"("--tp-size","2","--pp-size","2","--max-running-requests","64","--chunked-prefill-size","-1",)"
            R"("--mem-fraction-static","0.85","--context-length","32768","--disable-radix-cache","--enable-metrics",)"
            R"("--enable-cache-report","--enable-priority-scheduling","--default-priority-value","0",)"
            R"("--schedule-low-priority-values-first","--quantization=fp8"])")
      << "a lower number goes first in all engines, and 0 is that of requests without one";
}

TEST(EngineManifests, SchedulingThatTheEngineHasIsAFlag) {
  EngineManifest engine = two_pools();
  EnginePool& pool = engine.pools[0];
  pool.scheduling.watermark = 0.05;
  pool.scheduling.long_prefill_tokens = 2457;
  EXPECT_EQ(value_of(engine_container(engine)["args"], "--watermark"), "0.05");
  EXPECT_EQ(value_of(engine_container(engine)["args"], "--long-prefill-token-threshold"), "2457");
  engine.context_tokens = 2048;
  EXPECT_EQ(value_of(engine_container(engine)["args"], "--long-prefill-token-threshold"), "2048")
      << "vLLM refuses more than the context";
  engine.kind = EngineKind::kSglang;
  pool.scheduling.shortest_first = pool.scheduling.preempts_by_priority = true;
  const Json arguments = engine_container(engine)["args"];
  EXPECT_EQ(value_of(arguments, "--schedule-policy"), "shortest-prefill-first");
  EXPECT_EQ(value_of(arguments, "--retraction-policy"), "priority");
  EXPECT_EQ(std::count(arguments.begin(), arguments.end(), "--schedule-low-priority-values-first"), 1);
}

TEST(EngineManifests, TrtllmServeHasTheRestOfItsSettingsInAFile) {
  EngineManifest engine = two_pools();
  engine.kind = EngineKind::kTrtllm;
  EnginePool& pool = engine.pools[0];
  pool.tensor_parallel = 2;
  pool.prefix_caching = false;
  pool.gpu_memory = 0.85;
  engine.context_tokens = 32768;
  engine.api_key = "KEY";
  const Json container = engine_container(engine);
  EXPECT_EQ(container["args"].dump(),
            R"(["Qwen/Qwen3-32B","--host","0.0.0.0","--port","8000","--tp_size","2","--max_batch_size","256",)"
            R"("--max_num_tokens","8192","--max_seq_len","32768","--enable_chunked_prefill",)"
            R"("--extra_llm_api_options","/etc/trtllm/settings.yaml"])");
  EXPECT_EQ(container["readinessProbe"]["httpGet"]["path"], "/health");
  EXPECT_EQ(container["env"].dump().find("KEY\""), std::string::npos) << "it has no flag for a key";
  const std::string settings =
      "return_perf_metrics: true\nenable_iter_perf_stats: true\nkv_cache_config:\n  enable_block_reuse: false\n"
      "  free_gpu_memory_fraction: 0.85\n";
  const auto objects = manifests_of(engine);
  EXPECT_EQ(engine_object(objects, "ConfigMap", pool.deployment + kTrtllmSuffix)["data"]["settings.yaml"], settings);
  EXPECT_EQ(template_of(engine)["metadata"]["annotations"]["penstock/settings"], settings)
      << "pods with other settings are replaced";
}

TEST(EngineManifests, PoolsThatMoveKvPreferOneZone) {
  EngineManifest engine = two_pools();
  const auto zones = [&] {
    const Json spread = template_of(engine)["spec"]["topologySpreadConstraints"];
    return std::count_if(spread.begin(), spread.end(),
                         [](const Json& each) { return each["topologyKey"] == "topology.kubernetes.io/zone"; });
  };
  EXPECT_EQ(zones(), 1);
  EXPECT_FALSE(template_of(engine)["spec"].contains("affinity"));
  EXPECT_TRUE(value_of(engine_container(engine)["args"], "--kv-transfer-config").is_null());
  engine.pools[0].transfers_kv_with = {"interactive", "batch"};
  EXPECT_EQ(zones(), 0);
  EXPECT_TRUE(template_of(engine)["spec"]["affinity"].contains("podAffinity"));
  EXPECT_EQ(value_of(engine_container(engine)["args"], "--kv-transfer-config"),
            R"({"kv_connector":"NixlConnector","kv_role":"kv_both"})");
  EXPECT_NE(engine_container(engine)["env"].dump().find(
                R"({"name":"VLLM_NIXL_SIDE_CHANNEL_HOST","valueFrom":{"fieldRef":{"fieldPath":"status.podIP"}}})"),
            std::string::npos);
}

TEST(EngineManifests, PlaceholdersHaveTheRoomOfAReplicaAndGoFirst) {
  EngineManifest engine = two_pools();
  EXPECT_TRUE(engine_object(manifests_of(engine), "PriorityClass", "llm-penstock-engines-warm").is_null());
  engine.pools[1].warm_nodes = 2;
  engine.pools[1].gpu_resource = "nvidia.com/mig-3g.40gb";
  engine.pools[1].node_labels = {{"pool", "gpu-warm"}};
  const auto objects = manifests_of(engine);
  const Json& priority = engine_object(objects, "PriorityClass", "llm-penstock-engines-warm");
  EXPECT_EQ(priority["value"], -10);
  EXPECT_EQ(priority["preemptionPolicy"], "Never");
  EXPECT_TRUE(engine_object(objects, "Deployment", "llm-interactive-warm").is_null());
  const Json& spec = engine_object(objects, "Deployment", "llm-batch-warm")["spec"];
  EXPECT_EQ(spec["replicas"], 2);
  const Json pod = spec["template"]["spec"], engine_pod = template_of(engine, "llm-batch")["spec"];
  EXPECT_EQ(pod["priorityClassName"], priority["metadata"]["name"]);
  EXPECT_EQ(pod["containers"][0]["resources"], engine_pod["containers"][0]["resources"]);
  EXPECT_EQ(pod["nodeSelector"], engine_pod["nodeSelector"]);
  EXPECT_EQ(pod["tolerations"], engine_pod["tolerations"]);
  EXPECT_FALSE(engine_pod.contains("priorityClassName"));
  EXPECT_FALSE(spec["template"]["metadata"]["labels"].contains("app"));  // The gateway does not follow them.
}

TEST(EngineManifests, WeightsLieInAClaimInAFolderOfTheNodeOrGoWithThePod) {
  EngineManifest engine = two_pools();
  const auto volume = [&] { return template_of(engine)["spec"]["volumes"][0].dump(); };
  EXPECT_EQ(volume(), R"({"name":"weights","emptyDir":{}})");
  engine.weights_path = "/mnt/nvme";
  EXPECT_EQ(volume(), R"({"name":"weights","hostPath":{"path":"/mnt/nvme","type":"DirectoryOrCreate"}})");
  engine.weights_claim = "models";
  EXPECT_EQ(volume(), R"({"name":"weights","persistentVolumeClaim":{"claimName":"models"}})");
}

TEST(EngineManifests, AnotherQueueDelayOfTritonMakesNewPods) {
  EngineManifest engine = two_pools();
  engine.kind = EngineKind::kTriton;
  engine.pools[0].queue_delay_us = 3000;
  const auto objects = manifests_of(engine);
  const Json& settings = engine_object(objects, "ConfigMap", "llm-interactive-triton")["data"];
  EXPECT_EQ(settings["dynamic_batching.pbtxt"], "dynamic_batching {\n  max_queue_delay_microseconds: 3000\n}\n");
  EXPECT_NE(settings["repository.py"].get<std::string>().find("dynamic_batching.pbtxt"), std::string::npos);
  const Json before = template_of(engine);
  engine.pools[0].queue_delay_us = 5000;
  EXPECT_NE(template_of(engine)["metadata"], before["metadata"]);
}

TEST(EngineManifests, AKeyOfTheGatewayGuardsTheEngines) {
  EngineManifest engine = two_pools();
  EXPECT_EQ(engine_container(engine)["env"].dump().find("VLLM_API_KEY"), std::string::npos);
  engine.api_key = "ENGINE_KEY";
  EXPECT_NE(engine_container(engine)["env"].dump().find(R"({"name":"VLLM_API_KEY","valueFrom":{"secretKeyRef":)"
                                                        R"({"name":"penstock-engines-secrets","key":"ENGINE_KEY"}}})"),
            std::string::npos);
  engine.kind = EngineKind::kSglang;
  EXPECT_EQ(value_of(engine_container(engine)["args"], "--api-key"), "$(ENGINE_API_KEY)");
}

TEST(EngineManifests, TheServiceHasTheAddressesOfAllPods) {
  const EngineManifest engine = two_pools();
  const auto objects = manifests_of(engine);
  const Json& spec = engine_object(objects, "Service", "chat")["spec"];
  EXPECT_EQ(spec["clusterIP"], "None");
  for (const EnginePool& pool : engine.pools)
    for (const auto& [key, value] : spec["selector"].items())
      EXPECT_EQ(template_of(engine, pool.deployment)["metadata"]["labels"][key], value);
}

}  // namespace
}  // namespace penstock::deployment
