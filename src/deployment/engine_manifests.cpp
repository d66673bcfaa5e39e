#include "deployment/engine_manifests.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <string_view>

#include "deployment/assets.h"
#include "deployment/objects.h"

namespace penstock::deployment {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kEnginesLabel = "penstock/engines";  // Its value is the name of the manifest.
constexpr const char* kZone = "topology.kubernetes.io/zone";
constexpr const char* kHost = "kubernetes.io/hostname";
constexpr const char* kPauseImage = "registry.k8s.io/pause:3.10.1";
constexpr std::uint16_t kNixlPort = 5600;
constexpr const char* kTrtllmFolder = "/etc/trtllm";
constexpr const char* kTrtllmSettings = "settings.yaml";
constexpr std::int64_t kNoticeTime = 5;  // Seconds in which gateways learn that a pod ends, before its engine does.
constexpr std::int64_t kExitTime = 15;   // Seconds in which an engine without requests ends.
constexpr std::int64_t kStartUpMin = 30 * 60;  // Seconds that an engine may take in any case: it may download weights.
constexpr std::int64_t kStartUpFactor = 3;     // Of the configured time, for the slowest start.
constexpr std::int64_t kStartUpPeriod = 10;
constexpr std::int64_t kRolloutSlack = 600;    // Seconds until a node is there.
constexpr int kWarmPriority = -10;             // The lowest for which the cluster autoscaler adds nodes.
constexpr std::uint32_t kSharedMemoryGib = 2;  // For each GPU.

const char* name_of(EngineKind kind) {
  switch (kind) {
    case EngineKind::kVllm: return "vllm";
    case EngineKind::kSglang: return "sglang";
    case EngineKind::kTriton: return "triton";
    case EngineKind::kTrtllm: return "trtllm";
  }
  return "";
}

Json own_labels(const EngineManifest& engine, const std::string& instance, const char* component) {
  return {{"app.kubernetes.io/name", name_of(engine.kind)},
          {"app.kubernetes.io/instance", instance},
          {"app.kubernetes.io/component", component},
          {kEnginesLabel, engine.name}};
}

Json selector_of(const EngineManifest& engine, const PodLabels& labels) {
  Json selected = Json::object();
  for (const std::string& key : {std::string{"app.kubernetes.io/instance"}, engine.pool_label})
    selected[key] = labels.at(key);
  return selected;
}

// The words of a command line, with numbers as text.
class Words {
 public:
  explicit Words(std::initializer_list<std::string> words) : words_{words} {}
  Words& add(const char* flag) {
    words_.emplace_back(flag);
    return *this;
  }
  Words& add(const char* flag, const std::string& value) {
    words_.emplace_back(flag);
    words_.push_back(value);
    return *this;
  }
  Words& add(const char* flag, std::uint64_t value) { return add(flag, std::to_string(value)); }
  Words& add_if(bool condition, const char* flag) { return condition ? add(flag) : *this; }

  [[nodiscard]] Json take(const std::vector<std::string>& more) {
    words_.insert(words_.end(), more.begin(), more.end());
    return words_;
  }

 private:
  std::vector<std::string> words_;
};

// Flags of vLLM 0.32, which takes the model as an operand.
Json vllm_arguments(const EngineManifest& engine, const EnginePool& pool) {
  Words words{pool.weights};
  words.add("--served-model-name", pool.served_model).add("--port", engine.port);
  words.add("--tensor-parallel-size", pool.tensor_parallel);
  if (pool.pipeline_parallel > 1) words.add("--pipeline-parallel-size", pool.pipeline_parallel);
  words.add("--max-num-seqs", pool.max_sequences).add("--max-num-batched-tokens", pool.max_batched_tokens);
  if (pool.gpu_memory) words.add("--gpu-memory-utilization", fmt::format("{}", *pool.gpu_memory));
  if (engine.context_tokens) words.add("--max-model-len", *engine.context_tokens);
  words.add(pool.prefix_caching ? "--enable-prefix-caching" : "--no-enable-prefix-caching");
  words.add_if(!pool.chunked_prefill, "--no-enable-chunked-prefill").add("--enable-prompt-tokens-details");
  const EngineScheduling& scheduling = pool.scheduling;
  if (scheduling.by_priority) words.add("--scheduling-policy", "priority");
  if (scheduling.watermark > 0.0) words.add("--watermark", fmt::format("{}", scheduling.watermark));
  // vLLM does not start with more tokens than its context has.
  if (const std::uint32_t tokens = scheduling.long_prefill_tokens; tokens > 0)
    words.add("--long-prefill-token-threshold", std::min(tokens, engine.context_tokens.value_or(tokens)));
  // The connector has one role: the gateway decides which engine prefills.
  if (!pool.transfers_kv_with.empty())
    words.add("--kv-transfer-config", R"({"kv_connector":"NixlConnector","kv_role":"kv_both"})");
  words.add("--shutdown-timeout", static_cast<std::uint64_t>(engine.drain_time_s));
  return words.take(pool.arguments);
}

// Flags of SGLang 0.5, which ends by itself after the last open request.
Json sglang_arguments(const EngineManifest& engine, const EnginePool& pool) {
  Words words{"--model-path", pool.weights, "--served-model-name", pool.served_model, "--host", "0.0.0.0"};
  words.add("--port", engine.port).add("--tp-size", pool.tensor_parallel);
  if (pool.pipeline_parallel > 1) words.add("--pp-size", pool.pipeline_parallel);
  words.add("--max-running-requests", pool.max_sequences);
  words.add("--chunked-prefill-size", pool.chunked_prefill ? std::to_string(pool.max_batched_tokens) : "-1");
  if (pool.gpu_memory) words.add("--mem-fraction-static", fmt::format("{}", *pool.gpu_memory));
  if (engine.context_tokens) words.add("--context-length", *engine.context_tokens);
  words.add_if(!pool.prefix_caching, "--disable-radix-cache").add("--enable-metrics").add("--enable-cache-report");
  // By default SGLang serves the highest number first, and requests without one last.
  const EngineScheduling& scheduling = pool.scheduling;
  if (scheduling.by_priority) words.add("--enable-priority-scheduling").add("--default-priority-value", "0");
  if (scheduling.shortest_first) words.add("--schedule-policy", "shortest-prefill-first");
  if (scheduling.preempts_by_priority) words.add("--retraction-policy", "priority");
  if (scheduling.preempts_least_progress) words.add("--retraction-policy", "length");
  words.add_if(scheduling.by_priority || scheduling.preempts_by_priority, "--schedule-low-priority-values-first");
  if (!engine.api_key.empty()) words.add("--api-key", "$(ENGINE_API_KEY)");
  return words.take(pool.arguments);
}

// Triton's front end with the API of OpenAI. The init container makes /models.
Json triton_arguments(const EngineManifest& engine, const EnginePool& pool) {
  Words words{"--model-repository", "/models", "--tokenizer", engine.tokenizer, "--backend", "tensorrtllm"};
  return words.add("--openai-port", engine.port).take(pool.arguments);
}

// Flags of trtllm-serve 1.2, which takes the model as an operand and ends by itself after the last open request.
Json trtllm_arguments(const EngineManifest& engine, const EnginePool& pool) {
  Words words{pool.weights, "--host", "0.0.0.0"};
  words.add("--port", engine.port).add("--tp_size", pool.tensor_parallel);
  if (pool.pipeline_parallel > 1) words.add("--pp_size", pool.pipeline_parallel);
  words.add("--max_batch_size", pool.max_sequences).add("--max_num_tokens", pool.max_batched_tokens);
  if (engine.context_tokens) words.add("--max_seq_len", *engine.context_tokens);
  words.add_if(pool.chunked_prefill, "--enable_chunked_prefill");
  words.add("--extra_llm_api_options", kTrtllmFolder + std::string{"/"} + kTrtllmSettings);
  return words.take(pool.arguments);
}

// What trtllm-serve has no flags for, and the share of the memory, which this section would replace. Without the first
// two keys it has no metrics for Prometheus.
std::string trtllm_settings_of(const EnginePool& pool) {
  std::string text = "return_perf_metrics: true\nenable_iter_perf_stats: true\nkv_cache_config:\n";
  text += fmt::format("  enable_block_reuse: {}\n", pool.prefix_caching);
  if (pool.gpu_memory) text += fmt::format("  free_gpu_memory_fraction: {}\n", *pool.gpu_memory);
  return text;
}

bool takes_api_key(EngineKind kind) { return kind == EngineKind::kVllm || kind == EngineKind::kSglang; }

Json secret_variable(const EngineManifest& engine, const char* name, const std::string& key, bool is_optional) {
  Json reference{{"name", engine.name + "-secrets"}, {"key", key}};
  if (is_optional) reference["optional"] = true;
  return {{"name", name}, {"valueFrom", {{"secretKeyRef", std::move(reference)}}}};
}

Json environment_of(const EngineManifest& engine, const EnginePool& pool) {
  Json list = Json::array({{{"name", "HF_HOME"}, {"value", kWeightsFolder + std::string{"/huggingface"}}},
                           secret_variable(engine, "HF_TOKEN", "HF_TOKEN", true)});
  if (!engine.api_key.empty() && takes_api_key(engine.kind))
    list.push_back(secret_variable(engine, engine.kind == EngineKind::kVllm ? "VLLM_API_KEY" : "ENGINE_API_KEY",
                                   engine.api_key, false));
  if (!pool.transfers_kv_with.empty()) {
    // Decode engines fetch KV from this address.
    list.push_back(
        {{"name", "VLLM_NIXL_SIDE_CHANNEL_HOST"}, {"valueFrom", {{"fieldRef", {{"fieldPath", "status.podIP"}}}}}});
    list.push_back({{"name", "VLLM_NIXL_SIDE_CHANNEL_PORT"}, {"value", std::to_string(kNixlPort)}});
  }
  return list;
}

Json resources_of(const EnginePool& pool) {
  return {{"requests", {{"cpu", pool.cpu}, {"memory", pool.memory}, {pool.gpu_resource, pool.gpus()}}},
          {"limits", {{pool.gpu_resource, pool.gpus()}}}};
}

// Images of engines run as root and need the usual capabilities, such as to write to a volume of another user.
Json engine_security() { return {{"allowPrivilegeEscalation", false}}; }

Json health_probe(const EngineManifest& engine, std::int64_t period_s, int timeout_s, std::int64_t failures) {
  const char* path = engine.kind == EngineKind::kTriton ? "/health/ready" : "/health";
  Json made = http_probe(path, engine.port_name, false, static_cast<int>(period_s));
  made["timeoutSeconds"] = timeout_s;
  made["failureThreshold"] = failures;
  return made;
}

std::int64_t start_up_limit(const EnginePool& pool) { return std::max(kStartUpMin, kStartUpFactor * pool.start_up_s); }

Json engine_container(const EngineManifest& engine, const EnginePool& pool) {
  Json command, arguments;
  switch (engine.kind) {
    case EngineKind::kVllm:
      command = {"vllm", "serve"};
      arguments = vllm_arguments(engine, pool);
      break;
    case EngineKind::kSglang:
      command = {"python3", "-m", "sglang.launch_server"};
      arguments = sglang_arguments(engine, pool);
      break;
    case EngineKind::kTriton:
      command = {"python3", "/opt/tritonserver/python/openai/openai_frontend/main.py"};
      arguments = triton_arguments(engine, pool);
      break;
    case EngineKind::kTrtllm:
      command = {"trtllm-serve", "serve"};
      arguments = trtllm_arguments(engine, pool);
      break;
  }
  Json ports = Json::array({container_port(engine.port_name, engine.port)});
  if (!pool.transfers_kv_with.empty()) ports.push_back(container_port("nixl", kNixlPort));
  // Triton does not wait for open requests after SIGTERM, which therefore comes when they have ended.
  const std::int64_t notice_s = kNoticeTime + (engine.kind == EngineKind::kTriton ? engine.drain_time_s : 0);
  Json mounts =
      Json::array({{{"name", "weights"}, {"mountPath", kWeightsFolder}}, {{"name", "shm"}, {"mountPath", "/dev/shm"}}});
  if (engine.kind == EngineKind::kTriton) mounts.push_back({{"name", "models"}, {"mountPath", "/models"}});
  if (engine.kind == EngineKind::kTrtllm)
    mounts.push_back({{"name", "settings"}, {"mountPath", kTrtllmFolder}, {"readOnly", true}});
  return {{"name", "engine"},
          {"image", engine.image},
          {"command", std::move(command)},
          {"args", std::move(arguments)},
          {"env", environment_of(engine, pool)},
          {"ports", std::move(ports)},
          {"resources", resources_of(pool)},
          {"startupProbe", health_probe(engine, kStartUpPeriod, 5, start_up_limit(pool) / kStartUpPeriod)},
          {"readinessProbe", health_probe(engine, 5, 5, 3)},
          {"livenessProbe", health_probe(engine, 10, 10, 6)},
          {"lifecycle", {{"preStop", {{"sleep", {{"seconds", notice_s}}}}}}},
          {"securityContext", engine_security()},
          {"volumeMounts", std::move(mounts)}};
}

Json volumes_of(const EngineManifest& engine, const EnginePool& pool) {
  Json weights{{"name", "weights"}};
  if (!engine.weights_claim.empty())
    weights["persistentVolumeClaim"] = {{"claimName", engine.weights_claim}};
  else if (!engine.weights_path.empty())
    weights["hostPath"] = {{"path", engine.weights_path}, {"type", "DirectoryOrCreate"}};
  else
    weights["emptyDir"] = Json::object();
  Json shm{{"name", "shm"},
           {"emptyDir", {{"medium", "Memory"}, {"sizeLimit", fmt::format("{}Gi", kSharedMemoryGib * pool.gpus())}}}};
  Json made = Json::array({std::move(weights), std::move(shm)});
  if (engine.kind == EngineKind::kTriton) {
    made.push_back({{"name", "models"}, {"emptyDir", Json::object()}});
    made.push_back({{"name", "settings"}, {"configMap", {{"name", pool.deployment + kTritonSuffix}}}});
  }
  if (engine.kind == EngineKind::kTrtllm)
    made.push_back({{"name", "settings"}, {"configMap", {{"name", pool.deployment + kTrtllmSuffix}}}});
  return made;
}

// Kubernetes takes a text for a share only.
Json count_or_share(const std::string& text) {
  std::uint64_t count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  return error == std::errc{} && end == text.data() + text.size() ? Json(count) : Json(text);
}

Json repository_container(const EngineManifest& engine, const EnginePool& pool) {
  return {{"name", "model-repository"},
          {"image", engine.image},
          {"command", {"python3", "/etc/triton/repository.py", pool.weights, "/models", pool.served_model}},
          {"resources", {{"requests", {{"cpu", "100m"}, {"memory", "128Mi"}}}}},
          {"securityContext", engine_security()},
          {"volumeMounts", Json::array({{{"name", "weights"}, {"mountPath", kWeightsFolder}},
                                        {{"name", "models"}, {"mountPath", "/models"}},
                                        {{"name", "settings"}, {"mountPath", "/etc/triton"}, {"readOnly", true}}})}};
}

// Where the pods of a pool may run. Taints of a node pool usually repeat its label.
void set_nodes(Json& spec, const EnginePool& pool) {
  Json tolerations = Json::array({{{"key", kGpuResource}, {"operator", "Exists"}, {"effect", "NoSchedule"}}});
  for (const auto& [key, value] : pool.node_labels) {
    spec["nodeSelector"][key] = value;
    tolerations.push_back({{"key", key}, {"operator", "Equal"}, {"value", value}, {"effect", "NoSchedule"}});
  }
  spec["tolerations"] = std::move(tolerations);
}

// Replicas are on several nodes, and in several zones unless KV moves between them.
void set_topology(Json& spec, const EngineManifest& engine, const EnginePool& pool, const Json& selector) {
  const bool transfers_kv = !pool.transfers_kv_with.empty();
  std::vector<const char*> domains{kHost};
  if (!transfers_kv) domains.insert(domains.begin(), kZone);
  Json spread = Json::array();
  for (const char* domain : domains)
    spread.push_back({{"maxSkew", 1},
                      {"topologyKey", domain},
                      {"whenUnsatisfiable", "ScheduleAnyway"},
                      {"labelSelector", {{"matchLabels", selector}}},
                      {"matchLabelKeys", {"pod-template-hash"}}});
  if (transfers_kv) {
    Json of_pools{{"key", engine.pool_label}, {"operator", "In"}, {"values", pool.transfers_kv_with}};
    Json term{{"topologyKey", kZone},
              {"labelSelector",
               {{"matchLabels", {{kEnginesLabel, engine.name}}}, {"matchExpressions", Json::array({of_pools})}}}};
    spec["affinity"]["podAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"] =
        Json::array({{{"weight", 100}, {"podAffinityTerm", std::move(term)}}});
  }
  spec["topologySpreadConstraints"] = std::move(spread);
}

class EngineObjects {
 public:
  explicit EngineObjects(const EngineManifest& engine) : engine_{engine} {}

  void add_service() {
    // Without an address of its own: its name has the addresses of the pods.
    add("v1", "Service", engine_.service, own_labels(engine_, engine_.name, "engine"))["spec"] = {
        {"clusterIP", "None"},
        {"selector", {{kEnginesLabel, engine_.name}}},
        {"ports", Json::array({service_port(engine_.port_name, engine_.port)})}};
  }

  void add_pool(const EnginePool& pool) {
    const Json labels = own_labels(engine_, pool.deployment, "engine");
    const PodLabels of_pods = pod_labels_of(engine_, pool);
    const Json selector = selector_of(engine_, of_pods);
    if (engine_.kind == EngineKind::kTriton)
      add("v1", "ConfigMap", pool.deployment + kTritonSuffix, labels)["data"] = {
          {"dynamic_batching.pbtxt", batching_of(pool)}, {"repository.py", std::string{assets::triton_repository()}}};
    if (engine_.kind == EngineKind::kTrtllm)
      add("v1", "ConfigMap", pool.deployment + kTrtllmSuffix,
          labels)["data"] = {{kTrtllmSettings, trtllm_settings_of(pool)}};
    add_deployment(pool, labels, of_pods, selector);
    // By default a share of the pods that may be missing. Of those that must be there, 80 % would be all of up to four.
    add("policy/v1", "PodDisruptionBudget", pool.deployment, labels)["spec"] = {
        pool.min_available.empty() ? Json{"maxUnavailable", "20%"}
                                   : Json{"minAvailable", count_or_share(pool.min_available)},
        {"unhealthyPodEvictionPolicy", "AlwaysAllow"},
        {"selector", {{"matchLabels", selector}}}};
  }

  // Placeholders that any engine preempts: each one has the room of a replica, and waits for a new node when it is
  // preempted.
  void add_warm_nodes() {
    if (std::none_of(engine_.pools.begin(), engine_.pools.end(), [](const auto& pool) { return pool.warm_nodes > 0; }))
      return;
    // A name of the cluster contains the namespace, because others may have the same engines.
    const std::string priority = engine_.in_namespace + "-" + engine_.name + kWarmSuffix;
    Json object = object_of("scheduling.k8s.io/v1", "PriorityClass", priority, {},
                            own_labels(engine_, engine_.name, "warm-node"));
    object["value"] = kWarmPriority;
    object["globalDefault"] = false;
    object["preemptionPolicy"] = "Never";
    object["description"] = "Placeholders that keep nodes for engines";
    all_.push_back(std::move(object));
    for (const EnginePool& pool : engine_.pools)
      if (pool.warm_nodes > 0) add_placeholders(pool, priority);
  }

  [[nodiscard]] std::vector<Json> take() { return std::move(all_); }

 private:
  Json& add(const char* api_version, const char* kind, const std::string& name, const Json& labels) {
    return all_.emplace_back(object_of(api_version, kind, name, engine_.in_namespace, labels));
  }

  static std::string batching_of(const EnginePool& pool) {
    const std::string& sizes = pool.preferred_batch_sizes;
    return fmt::format("dynamic_batching {{\n{}  max_queue_delay_microseconds: {}\n}}\n",
                       sizes.empty() ? "" : fmt::format("  preferred_batch_size: [ {} ]\n", sizes),
                       pool.queue_delay_us);
  }

  void add_deployment(const EnginePool& pool, const Json& labels, const PodLabels& of_pods, const Json& selector) {
    const std::int64_t grace_s = kNoticeTime + engine_.drain_time_s + kExitTime;
    // Variables of Services would be taken for settings: a Service "vllm" makes VLLM_PORT.
    Json spec{{"automountServiceAccountToken", false},
              {"enableServiceLinks", false},
              {"terminationGracePeriodSeconds", grace_s},
              {"securityContext", {{"seccompProfile", {{"type", "RuntimeDefault"}}}}}};
    set_nodes(spec, pool);
    set_topology(spec, engine_, pool, selector);
    if (engine_.kind == EngineKind::kTriton)
      spec["initContainers"] = Json::array({repository_container(engine_, pool)});
    spec["containers"] = Json::array({engine_container(engine_, pool)});
    spec["volumes"] = volumes_of(engine_, pool);
    Json metadata{{"labels", of_pods}};
    // Other settings are other pods, which read them when they start.
    if (engine_.kind == EngineKind::kTriton)
      metadata["annotations"] = {{"penstock/queue-delay", fmt::format("{}us", pool.queue_delay_us)}};
    if (engine_.kind == EngineKind::kTrtllm)
      metadata["annotations"] = {{"penstock/settings", trtllm_settings_of(pool)}};
    add("apps/v1", "Deployment", pool.deployment, labels)["spec"] = {
        {"selector", {{"matchLabels", selector}}},
        {"strategy", {{"type", "RollingUpdate"}, {"rollingUpdate", {{"maxUnavailable", 0}, {"maxSurge", 1}}}}},
        {"progressDeadlineSeconds", start_up_limit(pool) + kRolloutSlack},
        {"template", {{"metadata", std::move(metadata)}, {"spec", std::move(spec)}}}};
  }

  void add_placeholders(const EnginePool& pool, const std::string& priority) {
    const std::string name = pool.deployment + kWarmSuffix;
    const Json labels{{"app.kubernetes.io/name", "pause"},
                      {"app.kubernetes.io/instance", name},
                      {"app.kubernetes.io/component", "warm-node"}};
    Json spec{{"automountServiceAccountToken", false},
              {"priorityClassName", priority},
              {"terminationGracePeriodSeconds", 0},
              {"securityContext",
               {{"runAsNonRoot", true}, {"runAsUser", 65535}, {"seccompProfile", {{"type", "RuntimeDefault"}}}}}};
    set_nodes(spec, pool);
    spec["containers"] = Json::array({{{"name", "pause"},
                                       {"image", kPauseImage},
                                       {"resources", resources_of(pool)},
                                       {"securityContext",
                                        {{"allowPrivilegeEscalation", false},
                                         {"readOnlyRootFilesystem", true},
                                         {"capabilities", {{"drop", {"ALL"}}}}}}}});
    add("apps/v1", "Deployment", name, labels)["spec"] = {
        {"replicas", pool.warm_nodes},
        {"selector", {{"matchLabels", labels}}},
        {"template", {{"metadata", {{"labels", labels}}}, {"spec", std::move(spec)}}}};
  }

  const EngineManifest& engine_;
  std::vector<Json> all_;
};

}  // namespace

const char* default_image(EngineKind kind) {
  switch (kind) {
    case EngineKind::kVllm: return "vllm/vllm-openai:v0.32.0";
    case EngineKind::kSglang: return "lmsysorg/sglang:v0.5.23";
    case EngineKind::kTriton: return "nvcr.io/nvidia/tritonserver:26.07-trtllm-python-py3";
    case EngineKind::kTrtllm: return "nvcr.io/nvidia/tensorrt-llm/release:1.2.1";
  }
  return "";
}

PodLabels pod_labels_of(const EngineManifest& engine, const EnginePool& pool) {
  PodLabels labels = pool.labels;
  const Json own = own_labels(engine, pool.deployment, "engine");
  for (const auto& [key, value] : own.items()) labels.try_emplace(key, value.get<std::string>());
  labels[kEnginesLabel] = engine.name;
  labels.try_emplace(engine.pool_label, pool.pool);
  return labels;
}

std::vector<Json> manifests_of(const EngineManifest& engine) {
  EngineObjects objects{engine};
  objects.add_service();
  for (const EnginePool& pool : engine.pools) objects.add_pool(pool);
  objects.add_warm_nodes();
  return objects.take();
}

}  // namespace penstock::deployment
