// config.json files of models, which users download.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "engine/model_config.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto read = penstock::engine::parse_model_config({reinterpret_cast<const char*>(data), size}, "config.json");
  if (!read) return read.error().message().empty() ? __builtin_trap(), 0 : 0;
  const penstock::engine::ModelCard& card = (*read)->card;
  if (!(card.parameters() > 0.0) || !(card.kv_elements_per_token() > 0.0) || card.layers == 0) __builtin_trap();
  if (card.full_layers > card.layers || card.active_experts > card.experts) __builtin_trap();
  return 0;
}
