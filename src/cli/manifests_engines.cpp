#include "cli/manifests_engines.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <utility>

#include "cli/engine_scheduling.h"
#include "cli/pool_flag.h"
#include "connect/kubernetes/pod_labels.h"
#include "connect/kubernetes/scale_target.h"
#include "deployment/manifests.h"
#include "deployment/names.h"
#include "engine/step_time_models.h"
#include "options/values.h"

namespace penstock::cli {
namespace {

using deployment::EngineKind;
using deployment::EngineManifest;
using deployment::EnginePool;

constexpr std::uint32_t kWarmNodesMax = 100, kNodeGpusMax = 16, kAvailableMax = 100'000, kBatchSizeMax = 65'536;
constexpr std::size_t kPortNameBytesMax = 15;
constexpr const char* kMigStrategy = "nvidia.com/mig.strategy";  // A label of GPU feature discovery.
constexpr const char* kMigMixed = "mixed";
constexpr double kVllmGpuMemory = 0.9;
constexpr unsigned kCpusPerGpu = 4, kMemoryGibPerGpu = 16;

constexpr std::array<std::string_view, 15> kEngineFlags = {"--engine",
                                                           "--model",
                                                           "--tokenizer",
                                                           "--gpu-resource",
                                                           "--node-pool",
                                                           "--warm-nodes",
                                                           "--cpu",
                                                           "--memory",
                                                           "--max-model-len",
                                                           "--weights-claim",
                                                           "--weights-path",
                                                           "--gpu-memory-utilization",
                                                           "--engine-argument",
                                                           "--min-available",
                                                           "--preferred-batch-sizes"};

core::Result<void> check_model(const std::string& text) {
  const bool good = !text.starts_with('-') && std::none_of(text.begin(), text.end(), [](char c) {
    return c == ':' || c == ' ' || static_cast<unsigned char>(c) < 0x20;
  });
  if (good) return {};
  return core::invalid_input({}, "is not the name of a model", "as Qwen/Qwen3-32B, or a folder below /weights");
}

core::Result<void> check_node_label(const std::string& text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos) return core::invalid_input({}, "must be KEY=VALUE", "as pool=gpu-warm");
  if (auto good = deployment::check_label_key(text.substr(0, equals)); !good) return good;
  return deployment::check_label_value(text.substr(equals + 1));
}

core::Result<void> check_argument(const std::string& text) {
  if (text.starts_with('-')) return {};
  return core::invalid_input({}, "must begin with a dash", "as --engine-argument=--quantization=fp8");
}

core::Result<void> check_warm_nodes(const std::string& text) {
  if (options::parse_count(text, 0, kWarmNodesMax)) return {};
  return core::invalid_input({}, fmt::format("must be a number of nodes from 0 to {}", kWarmNodesMax));
}

core::Result<void> check_min_available(const std::string& text) {
  const bool is_share = text.ends_with('%') && options::parse_count(text.substr(0, text.size() - 1), 0, 100);
  if (is_share || options::parse_count(text, 0, kAvailableMax)) return {};
  return core::invalid_input({}, "must be a share in percent or a number of pods", "as 80%");
}

std::vector<std::string> split_sizes(const std::string& text) {
  std::vector<std::string> sizes;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    sizes.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return sizes;
}

core::Result<void> check_batch_sizes(const std::string& text) {
  for (const std::string& size : split_sizes(text))
    if (!options::parse_count(size, 1, kBatchSizeMax))
      return core::invalid_input({}, fmt::format("must be batch sizes from 1 to {} with commas", kBatchSizeMax),
                                 "as 1,2,4,8");
  return {};
}

bool is_slice(const std::string& resource) { return resource.find("/mig-") != std::string::npos; }

bool is_below(const std::string& path, const std::string& folder) {
  return path.starts_with(folder + "/") && path.find("/../") == std::string::npos && !path.ends_with("/..");
}

// Builds the manifest of all pools of a configuration.
class EngineManifestBuilder {
 public:
  EngineManifestBuilder(const EngineFlags& flags, const configuration::Configuration& made, options::Reading& reading,
                        EngineManifests& result)
      : flags_{flags}, made_{made}, reading_{reading}, result_{result}, names_(names_of(made)) {}

  void build() {
    set_shared();
    check_flags();
    const std::vector<configuration::Configuration> all = configuration::configurations_of(made_);
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (!made_.deployments.empty()) reading_.set_scope(fmt::format("deployments[{}]", i));
      for (std::size_t p = 0; p < all[i].run.pools.size(); ++p) add_pool(all[i].run, p);
      reading_.set_scope({});
    }
  }

 private:
  static std::vector<std::string> names_of(const configuration::Configuration& made) {
    std::vector<std::string> names;
    for (const simulation::PoolSpec& pool : configuration::all_pools(made)) names.push_back(pool.name);
    return names;
  }

  EngineManifest& manifest() { return result_.manifest; }
  void note(std::string text) { result_.notes.push_back(std::move(text)); }

  // Reports a value that Kubernetes does not accept.
  void check(const std::string& path, const std::string& text, const core::Result<void>& good) {
    if (!good) reading_.report(path, options::quote(text) + " " + good.error().what, good.error().hint);
  }

  void set_shared() {
    const gateway::PodOptions& pods = made_.gateway.discovery.pods;
    EngineManifest& engine = manifest();
    engine.kind = flags_.kind;
    engine.pool_label = pods.pool_label;
    engine.port = pods.port;
    engine.service = pods.service.empty() ? engine.name : pods.service;
    check("gateway.kubernetes.service", engine.service, deployment::check_dns_label(engine.service));
    if (!pods.port_name.empty()) engine.port_name = pods.port_name;
    check("gateway.kubernetes.port_name", engine.port_name,
          deployment::check_dns_label(engine.port_name, kPortNameBytesMax));
    if (!pods.in_namespace.empty()) engine.in_namespace = pods.in_namespace;
    engine.drain_time_s = std::chrono::ceil<std::chrono::seconds>(made_.gateway.drain_time).count();
    engine.context_tokens = flags_.context_tokens;
    engine.tokenizer = flags_.tokenizer;
    engine.weights_claim = flags_.weights_claim;
    engine.weights_path = flags_.weights_path;
    if (!pods.follows_any() && made_.gateway.discovery.dns.empty())
      reading_.report("gateway.kubernetes", "needs a selector, without which no gateway would find the pods",
                      fmt::format("add gateway: {{kubernetes: {{selector: penstock/engines={}}}}}", engine.name));
    auto selector = connect::LabelSelector::parse(pods.selector);
    if (selector)
      selector_ = *std::move(selector);
    else
      reading_.report("gateway.kubernetes.selector", selector.error());
    set_api_key(made_.gateway.discovery.credentials);
  }

  void set_api_key(const net::CredentialOptions& credentials) {
    const std::string folder = deployment::kSecretsFolder;
    if (!credentials.api_key_env.empty()) {
      manifest().api_key = credentials.api_key_env;
      check("gateway.credentials.api_key_env", manifest().api_key, deployment::check_variable(manifest().api_key));
    } else if (!credentials.api_key_file.empty()) {
      if (is_below(credentials.api_key_file, folder)) {
        manifest().api_key = credentials.api_key_file.substr(folder.size() + 1);
        check("gateway.credentials.api_key_file", credentials.api_key_file,
              deployment::check_secret_key(manifest().api_key));
      } else {
        reading_.report("gateway.credentials.api_key_file",
                        "the container has no file " + options::quote(credentials.api_key_file),
                        fmt::format("put it into the Secret {}-secrets and name it {}/…", manifest().name, folder));
      }
    }
    if (!manifest().api_key.empty() && flags_.kind == EngineKind::kTriton)
      note("Triton's front end serves requests without the API key of gateway.credentials, too.");
    if (!manifest().api_key.empty() && flags_.kind == EngineKind::kTrtllm)
      note("trtllm-serve serves requests without the API key of gateway.credentials, too.");
    if (flags_.kind == EngineKind::kTrtllm && made_.prometheus.preset != "tensorrt_llm")
      note(
          "trtllm-serve has its metrics at /prometheus/metrics, which the planner does not read: let Prometheus scrape "
          "it, and set prometheus.url and prometheus.preset: tensorrt_llm.");
  }

  void check_flags() {
    if (!flags_.weights_claim.empty())
      check("--weights-claim", flags_.weights_claim, deployment::check_dns_name(flags_.weights_claim));
    if (!flags_.weights_claim.empty() && !flags_.weights_path.empty())
      reading_.report("--weights-path", "cannot be combined with --weights-claim");
    if (!flags_.weights_path.empty() && !is_below(flags_.weights_path, {}))
      reading_.report("--weights-path", "must be an absolute path, is " + options::quote(flags_.weights_path));
    const bool is_triton = flags_.kind == EngineKind::kTriton;
    if (is_triton && flags_.tokenizer.empty())
      reading_.report("--tokenizer", "is missing", "name the tokenizer of the model, as Qwen/Qwen3-32B");
    if (!is_triton && !flags_.tokenizer.empty()) reading_.report("--tokenizer", "is of --engine triton");
    for (const auto& [flag, is_given] :
         {std::pair{"--max-model-len", flags_.context_tokens.has_value()}, {"--gpu-memory-utilization", has_memory()}})
      if (is_triton && is_given) reading_.report(flag, "is part of the engine that Triton loads");
    models_.report_refused(reading_, check_model);
    resources_.report_refused(reading_, [](const std::string& text) { return deployment::check_resource(text); });
    node_pools_.report_refused(reading_, check_node_label);
    warm_nodes_.report_refused(reading_, check_warm_nodes);
    cpus_.report_refused(reading_, [](const std::string& text) { return deployment::check_quantity(text); });
    memories_.report_refused(reading_, [](const std::string& text) { return deployment::check_quantity(text); });
    arguments_.report_refused(reading_, check_argument);
    min_available_.report_refused(reading_, check_min_available);
    batch_sizes_.report_refused(reading_, check_batch_sizes);
    if (!is_triton && !flags_.batch_sizes.empty()) reading_.report("--preferred-batch-sizes", "is of --engine triton");
  }
  [[nodiscard]] bool has_memory() const { return flags_.gpu_memory > 0.0; }

  void add_pool(const simulation::RunOptions& run, std::size_t index) {
    const simulation::PoolSpec& spec = run.pools[index];
    const std::string path = fmt::format("pools[{}].", index);
    EnginePool pool;
    pool.pool = spec.name;
    check(path + "name", spec.name, deployment::check_label_value(spec.name));
    set_deployment(pool, spec, path);
    set_model(pool, run.model);
    set_parallelism(pool, spec, path);
    set_limits(pool, spec.engine);
    if (spec.role != signals::Role::kAggregated) {
      for (const simulation::PoolSpec& each : run.pools) pool.transfers_kv_with.push_back(each.name);
      if (flags_.kind != EngineKind::kVllm)
        reading_.report(path + "role", "the gateway moves KV as vLLM does, and not as " + std::string{name()},
                        "use --engine vllm, or aggregated pools");
    }
    pool.start_up_s = std::chrono::ceil<std::chrono::seconds>(spec.start_up).count();
    pool.cpu = cpus_.of(pool.pool, std::to_string(kCpusPerGpu * pool.gpus()));
    pool.memory = memories_.of(pool.pool, fmt::format("{}Gi", kMemoryGibPerGpu * pool.gpus()));
    for (const std::string& label : node_pools_.all_of(pool.pool))
      if (const std::size_t equals = label.find('='); equals != std::string::npos)
        pool.node_labels.emplace_back(label.substr(0, equals), label.substr(equals + 1));
    pool.warm_nodes =
        static_cast<std::uint32_t>(options::parse_count(warm_nodes_.of(pool.pool, "0"), 0, kWarmNodesMax).value_or(0));
    check_mig(pool);
    pool.arguments = arguments_.all_of(pool.pool);
    pool.min_available = min_available_.of(pool.pool, {});
    if (const std::string sizes = batch_sizes_.of(pool.pool, {}); !sizes.empty())
      pool.preferred_batch_sizes = fmt::format("{}", fmt::join(split_sizes(sizes), ", "));
    set_labels(pool, spec.role);
    manifest().pools.push_back(std::move(pool));
  }
  [[nodiscard]] const char* name() const { return engine_name(flags_.kind); }

  // The object of `pools[].kubernetes`, or a Deployment with the name of the pool, as for other autoscalers.
  void set_deployment(EnginePool& pool, const simulation::PoolSpec& spec, const std::string& path) {
    const bool is_named = !spec.kubernetes.empty();
    pool.deployment = spec.name;
    if (is_named) {
      const auto target = connect::parse_scale_target(spec.kubernetes);
      if (!target || target->resource.group != "apps" || target->resource.plural != "deployments")
        return reading_.report(path + "kubernetes",
                               "`penstock manifests engines` writes Deployments, is " + options::quote(spec.kubernetes),
                               "name it deployment/NAME, or write the object yourself");
      pool.deployment = target->name;
    }
    const std::string key = path + (is_named ? "kubernetes" : "name");
    check(key, pool.deployment,
          deployment::check_dns_name(pool.deployment, deployment::kLabelBytesMax - deployment::kEngineSuffixBytesMax));
    for (const EnginePool& other : manifest().pools)
      if (other.deployment == pool.deployment)
        reading_.report(key, fmt::format("the pools {} and {} have one Deployment, {}", options::quote(other.pool),
                                         options::quote(pool.pool), options::quote(pool.deployment)));
  }

  void set_model(EnginePool& pool, const std::string& served) {
    pool.weights = models_.of(pool.pool, served);
    pool.served_model = served.empty() ? pool.weights : served;
    if (pool.weights.empty())
      return reading_.report("model", "is missing", "name the model that the engines serve, or give --model");
    const std::string folder = deployment::kWeightsFolder;
    const bool is_folder = pool.weights.starts_with('/');
    if (is_folder && !is_below(pool.weights, folder))
      reading_.report("--model", fmt::format("the container has no folder {}", options::quote(pool.weights)),
                      "name a folder below " + folder);
    else if (is_folder && flags_.weights_claim.empty() && flags_.weights_path.empty())
      reading_.report("--model", options::quote(pool.weights) + " needs a volume that contains it",
                      "give --weights-claim or --weights-path");
    if (flags_.kind == EngineKind::kTrtllm) check_served_name(pool);
    if (flags_.kind != EngineKind::kTriton) return;
    if (!is_folder)
      reading_.report("--model",
                      "must be the folder of a model repository for Triton, is " + options::quote(pool.weights),
                      "as /weights/repository");
    if (served.empty() || served.find('/') != std::string::npos)
      reading_.report("model", "Triton serves a model under the name of a folder, is " + options::quote(served),
                      "use a name without '/'");
  }

  // trtllm-serve chooses the name in requests: that of the model, or of the folder of its weights.
  void check_served_name(const EnginePool& pool) {
    std::string name = pool.weights;
    while (name.ends_with('/')) name.pop_back();
    if (pool.weights.starts_with('/')) name = name.substr(name.rfind('/') + 1);
    if (pool.served_model != name)
      reading_.report("model",
                      fmt::format("trtllm-serve serves {} under the name {}, is {}", options::quote(pool.weights),
                                  options::quote(name), options::quote(pool.served_model)),
                      "use this name, or a folder of the other name");
  }

  void set_parallelism(EnginePool& pool, const simulation::PoolSpec& spec, const std::string& path) {
    pool.tensor_parallel = spec.gpus_per_replica;
    pool.gpu_resource = resources_.of(pool.pool, deployment::kGpuResource);
    if (flags_.kind == EngineKind::kVllm) pool.gpu_memory = kVllmGpuMemory;
    if (const auto roofline = engine::find_roofline(spec.step_time_model)) {
      pool.tensor_parallel = roofline->spec().tensor_parallel;
      pool.pipeline_parallel = roofline->spec().pipeline_parallel;
      if (flags_.kind == EngineKind::kVllm) pool.gpu_memory = roofline->spec().memory_utilization;
      if (roofline->spec().attention_ranks > 1)
        reading_.report(path + "engine.model", "engines with several attention ranks are not written",
                        "write the object of this pool yourself");
    }
    if (has_memory()) pool.gpu_memory = flags_.gpu_memory;
    const std::uint32_t gpus = pool.gpus();
    if (gpus > kNodeGpusMax)
      reading_.report(path + "gpus", fmt::format("no node has {} GPUs for a pod of a Deployment", gpus),
                      "write a LeaderWorkerSet, and name it in pools[].kubernetes");
    if (gpus > 1 && is_slice(pool.gpu_resource))
      reading_.report(
          path + "gpus",
          fmt::format("a replica on {} has one slice, is {}: slices cannot be combined", pool.gpu_resource, gpus),
          "use whole GPUs, or a larger slice");
    if (gpus > 1 && flags_.kind == EngineKind::kTriton)
      reading_.report(path + "gpus", fmt::format("Triton's front end runs engines on one GPU, is {}", gpus),
                      "use --engine vllm or sglang");
  }

  // With the strategy `single` a slice is a nvidia.com/gpu, and with `none` there are no slices.
  void check_mig(const EnginePool& pool) {
    if (!is_slice(pool.gpu_resource)) return;
    for (const auto& [key, value] : pool.node_labels)
      if (key == kMigStrategy && value != kMigMixed)
        reading_.report(
            "--node-pool",
            fmt::format("nodes with {}={} have no {}, so that no pod of {} would be scheduled", key, value,
                        pool.gpu_resource, options::quote(pool.pool)),
            fmt::format("use {}={}, or --gpu-resource {}", kMigStrategy, kMigMixed, deployment::kGpuResource));
  }

  void set_limits(EnginePool& pool, const engine::EngineConfig& engine) {
    pool.max_sequences = engine.max_sequences;
    pool.max_batched_tokens = engine.max_batched_tokens;
    pool.chunked_prefill = engine.chunked_prefill;
    pool.prefix_caching = engine.prefix_caching;
    pool.queue_delay_us = std::chrono::ceil<std::chrono::microseconds>(engine.queue_delay).count();
    if (flags_.kind != EngineKind::kTriton && pool.queue_delay_us > 0)
      note(fmt::format("{} has no queue delay: engine.queue_delay of pool {} counts in simulations only.", name(),
                       pool.pool));
    for (std::string& each : set_scheduling(flags_.kind, engine, pool)) note(std::move(each));
  }

  void set_labels(EnginePool& pool, signals::Role role) {
    std::vector<std::string> preferred{pool.pool, pool.deployment};
    pool.labels.emplace(manifest().pool_label, pool.pool);
    if (role != signals::Role::kAggregated) {
      pool.labels.emplace(connect::kRoleLabel, to_string(role));
      preferred.emplace_back(to_string(role));
    }
    // That of the manifest cannot be another one.
    if (made_.gateway.discovery.pods.selector.empty()) return;
    connect::complete_labels(pool.labels, selector_, preferred);
    const connect::Labels all = deployment::pod_labels_of(manifest(), pool);
    if (selector_.selects(all)) return;
    std::string text;
    for (const auto& [key, value] : all) text += (text.empty() ? "" : ",") + key + "=" + value;
    reading_.report("gateway.kubernetes.selector", fmt::format("does not select the pods of {}, whose labels are {}",
                                                               options::quote(pool.pool), text));
  }

  const EngineFlags& flags_;
  const configuration::Configuration& made_;
  options::Reading& reading_;
  EngineManifests& result_;
  const std::vector<std::string> names_;
  connect::LabelSelector selector_;
  const PoolFlag models_{"--model", flags_.models, names_}, resources_{"--gpu-resource", flags_.gpu_resources, names_},
      node_pools_{"--node-pool", flags_.node_pools, names_}, warm_nodes_{"--warm-nodes", flags_.warm_nodes, names_},
      cpus_{"--cpu", flags_.cpus, names_}, memories_{"--memory", flags_.memories, names_},
      arguments_{"--engine-argument", flags_.arguments, names_},
      min_available_{"--min-available", flags_.min_available, names_},
      batch_sizes_{"--preferred-batch-sizes", flags_.batch_sizes, names_};
};

}  // namespace

std::span<const std::string_view> engine_flag_names() { return kEngineFlags; }

void add_engine_flags(options::Table& table, EngineFlags& made) {
  using namespace options;
  table.group("Engines, with a value for one pool or for all of them");
  table
      .add({"", "--model", "weights: a model of Hugging Face or a folder below /weights; by default the file's model"},
           each_use(made.models))
      .placeholder("[POOL:]MODEL")
      .repeatable();
  table
      .add({"", "--gpu-resource", "resource of a GPU or of a MIG slice, as nvidia.com/mig-3g.40gb"},
           each_use(made.gpu_resources))
      .placeholder("[POOL:]NAME")
      .by_default(deployment::kGpuResource)
      .repeatable();
  table
      .add({"", "--node-pool", "label of the nodes, and taint that is tolerated; once for each label"},
           each_use(made.node_pools))
      .placeholder("[POOL:]KEY=VALUE")
      .repeatable();
  table
      .add({"", "--warm-nodes", "placeholders of low priority, each with the room of a replica, that keep nodes warm"},
           each_use(made.warm_nodes))
      .placeholder("[POOL:]COUNT")
      .by_default("0")
      .repeatable();
  table.add({"", "--cpu", "CPU cores that a replica requests"}, each_use(made.cpus))
      .placeholder("[POOL:]QUANTITY")
      .by_default("4 for each GPU")
      .repeatable();
  table.add({"", "--memory", "memory that a replica requests"}, each_use(made.memories))
      .placeholder("[POOL:]QUANTITY")
      .by_default("16Gi for each GPU")
      .repeatable();
  table
      .add({"", "--engine-argument",
            "further argument of the engine, as --engine-argument=--quantization=fp8; repeatable"},
           each_use(made.arguments))
      .placeholder("[POOL:]TEXT")
      .repeatable();
  table
      .add({"", "--min-available",
            "pods that a PodDisruptionBudget keeps, as 80%; of up to four pods that lets none go"},
           each_use(made.min_available))
      .placeholder("[POOL:]SHARE")
      .by_default("20% may go, rounded up")
      .repeatable();
  table.add({"", "--preferred-batch-sizes", "batch sizes that triton prefers, as 1,2,4,8"}, each_use(made.batch_sizes))
      .placeholder("[POOL:]SIZES")
      .repeatable();
  table.group("Engines");
  table
      .add({"", "--engine",
            "vllm, sglang, trtllm (trtllm-serve of TensorRT-LLM), or triton with an engine of TensorRT-LLM"},
           named_choice(made.kind, {{"vllm", EngineKind::kVllm},
                                    {"sglang", EngineKind::kSglang},
                                    {"trtllm", EngineKind::kTrtllm},
                                    {"triton", EngineKind::kTriton}}))
      .placeholder("KIND");
  table.add({"", "--weights-claim", "PersistentVolumeClaim for weights and downloads"}, text(made.weights_claim))
      .placeholder("NAME")
      .by_default("a volume that goes with the pod");
  table.add({"", "--weights-path", "folder of each node for the same, as of a local NVMe"}, text(made.weights_path))
      .placeholder("PATH");
  table
      .add({"", "--gpu-memory-utilization", "share of the memory of each GPU that the engine uses"},
           share(made.gpu_memory, 0.01, 1.0))
      .by_default("vllm: that of the file's roofline, or 0.9");
  table
      .add({"", "--max-model-len", "most tokens of a prompt and its answer"},
           count(made.context_tokens, 1, 1'000'000'000))
      .placeholder("TOKENS")
      .by_default("that of the model");
  table.add({"", "--tokenizer", "tokenizer of the model, for triton"}, text(made.tokenizer)).placeholder("NAME");
}

EngineManifests engine_manifests(const EngineNames& names, const EngineFlags& flags,
                                 const configuration::Configuration& made, options::Reading& reading) {
  EngineManifests result;
  result.manifest.name = names.name;
  result.manifest.in_namespace = names.in_namespace;
  result.manifest.image = names.image.empty() ? deployment::default_image(flags.kind) : names.image;
  EngineManifestBuilder{flags, made, reading, result}.build();
  return result;
}

}  // namespace penstock::cli
