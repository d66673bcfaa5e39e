// Dimensions of a model that is not in the catalogue, from its config.json.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "core/result.h"
#include "engine/gpu_catalogue.h"
#include "engine/model_catalogue.h"

namespace penstock::engine {

struct ConfiguredModel {
  std::string name;  // What card.name refers to.
  ModelCard card;
  std::optional<Precision> precision{};  // Of its weights, where quantization_config tells it.
};

// `json` is a config.json as models are published with; the dimensions of a multimodal model are in its text_config.
// Errors name the key, and architectures whose layers are not described by the keys that are read (Mamba).
[[nodiscard]] core::Result<std::shared_ptr<const ConfiguredModel>> parse_model_config(std::string_view json,
                                                                                      const std::string& name);
// Reads the file, or config.json in the folder.
[[nodiscard]] core::Result<std::shared_ptr<const ConfiguredModel>> read_model_config(const std::string& path);
// Whether a name in place of a model is a path for read_model_config().
[[nodiscard]] bool is_model_path(std::string_view name);

}  // namespace penstock::engine
