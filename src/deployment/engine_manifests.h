// The objects of Kubernetes that run the engines of pools.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace penstock::deployment {

enum class EngineKind : std::uint8_t { kVllm, kSglang, kTriton, kTrtllm };

// The release whose flags the manifests use, such as "vllm/vllm-openai:v0.32.0".
[[nodiscard]] const char* default_image(EngineKind kind);

inline constexpr const char* kGpuResource = "nvidia.com/gpu";
inline constexpr const char* kWeightsFolder = "/weights";  // Of an engine's container; it also holds downloads.
inline constexpr const char* kWarmSuffix = "-warm";        // Of the Deployment of placeholders.
inline constexpr const char* kTritonSuffix = "-triton";    // Of the ConfigMap with the settings of a Triton.
inline constexpr const char* kTrtllmSuffix = "-trtllm";    // Of that with the settings of a trtllm-serve.
inline constexpr std::size_t kEngineSuffixBytesMax = 7;    // Of names that are made from the name of a Deployment.

// How an engine orders requests and divides an iteration. What it has no flag for is ignored.
struct EngineScheduling {
  bool by_priority = false;     // A lower number goes first, as the gateway sends it; requests without one have 0.
  bool shortest_first = false;  // SGLang.
  bool preempts_by_priority = false, preempts_least_progress = false;  // SGLang; vLLM preempts as it schedules.
  double watermark = 0.0;                 // vLLM: share of the KV blocks that stay free at admission.
  std::uint32_t long_prefill_tokens = 0;  // vLLM: most tokens of a prompt in an iteration; 0: no limit.
};

using PodLabels = std::map<std::string, std::string, std::less<>>;

// A pool as one Deployment, each of whose pods is a replica. Names, labels and quantities are valid, and all texts are
// UTF-8.
struct EnginePool {
  std::string pool, deployment;
  PodLabels labels;  // Of its pods: those that the gateway needs.
  // Values of the label of pools among whose engines KV moves, so that they should be in one zone. Empty: it does not.
  std::vector<std::string> transfers_kv_with;
  std::string weights;       // A model of Hugging Face, or a folder below kWeightsFolder. Triton: a model repository.
  std::string served_model;  // The name in requests.
  std::uint32_t tensor_parallel = 1, pipeline_parallel = 1;  // Their product is the number of GPUs.
  std::uint32_t max_sequences = 256, max_batched_tokens = 8192;
  bool chunked_prefill = true, prefix_caching = true;
  EngineScheduling scheduling;
  std::optional<double> gpu_memory;   // Share of the memory of each GPU; empty: the engine's default.
  std::int64_t queue_delay_us = 0;    // Of Triton only.
  std::string preferred_batch_sizes;  // Of Triton only: "1, 2, 4"; empty: none.
  std::string min_available;          // Of the PodDisruptionBudget, as "80%" or "2"; empty: maxUnavailable is 20%.
  std::int64_t start_up_s = 0;
  std::string gpu_resource = kGpuResource;
  std::string cpu, memory;  // Quantities of a replica.
  std::vector<std::pair<std::string, std::string>> node_labels;
  std::uint32_t warm_nodes = 0;
  std::vector<std::string> arguments;  // After all others.

  [[nodiscard]] std::uint32_t gpus() const { return tensor_parallel * pipeline_parallel; }
};

struct EngineManifest {
  std::string name, in_namespace, image;
  EngineKind kind = EngineKind::kVllm;
  std::string pool_label = "penstock/pool";
  std::string service, port_name = "http";  // Of the Service of all pods.
  std::uint16_t port = 8000;
  std::int64_t drain_time_s = 0;  // From SIGTERM until requests that are open are cut.
  std::optional<std::uint32_t> context_tokens;
  std::string tokenizer;                    // Of Triton.
  std::string weights_claim, weights_path;  // A PersistentVolumeClaim, or a folder of the node. Neither: emptyDir.
  std::string api_key;                      // Key of the Secret NAME-secrets; empty: none.
  std::vector<EnginePool> pools;
};

// The labels of the pods of a pool. Those that the gateway needs go first.
[[nodiscard]] PodLabels pod_labels_of(const EngineManifest& engine, const EnginePool& pool);
// The Deployments have no number of replicas, which is the planner's, an autoscaler's or a person's.
[[nodiscard]] std::vector<nlohmann::ordered_json> manifests_of(const EngineManifest& engine);

}  // namespace penstock::deployment
