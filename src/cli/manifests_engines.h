// `penstock manifests engines`: from the pools of a configuration to the engines that serve them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "configuration/configuration.h"
#include "deployment/engine_manifests.h"
#include "options/reading.h"
#include "options/table.h"

namespace penstock::cli {

// Each text of a list is "[POOL:]VALUE"; without a pool it counts for all that have no value of their own. Arguments
// and labels of nodes add up instead.
struct EngineFlags {
  deployment::EngineKind kind = deployment::EngineKind::kVllm;
  std::vector<std::string> models, gpu_resources, node_pools, warm_nodes, cpus, memories, arguments, min_available,
      batch_sizes;
  std::string tokenizer, weights_claim, weights_path;
  double gpu_memory = 0.0;  // Share; 0: as the configuration, or the engine's default.
  std::optional<std::uint32_t> context_tokens;
};

// Adds the rows of the flags. They must outlive the table.
void add_engine_flags(options::Table& table, EngineFlags& flags);
[[nodiscard]] std::span<const std::string_view> engine_flag_names();

struct EngineNames {
  std::string name, in_namespace;  // Of the manifest; the pods may have a namespace of their own.
  std::string image;               // Empty: the default of the engine.
};
struct EngineManifests {
  deployment::EngineManifest manifest;
  std::vector<std::string> notes;  // Lines on what the engines do not do as the configuration says.
};
// Reports what an engine or Kubernetes cannot have; the result is then incomplete.
[[nodiscard]] EngineManifests engine_manifests(const EngineNames& names, const EngineFlags& flags,
                                               const configuration::Configuration& made, options::Reading& reading);

}  // namespace penstock::cli
