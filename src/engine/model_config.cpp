#include "engine/model_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "engine/step_time_models.h"

namespace penstock::engine {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kBytesMax = 4U << 20U;
constexpr double kDimensionMax = 1e7;

// Reads keys of one object and keeps the first problem.
class Keys {
 public:
  explicit Keys(const Json& object) : object_(object) {}

  [[nodiscard]] const Json* find(std::string_view key) const {
    const auto found = object_.find(key);
    return found == object_.end() || found->is_null() ? nullptr : &*found;
  }
  // The first of the keys that is there.
  [[nodiscard]] std::optional<std::uint32_t> number(std::initializer_list<std::string_view> keys) {
    for (const std::string_view key : keys) {
      const Json* value = find(key);
      if (value == nullptr) continue;
      if (!value->is_number() || !(value->get<double>() >= 0.0) || value->get<double>() > kDimensionMax) {
        fail(key, fmt::format("must be a number from 0 to {:.0f}", kDimensionMax));
        return std::nullopt;
      }
      return static_cast<std::uint32_t>(value->get<double>());
    }
    return std::nullopt;
  }
  // The same of a key that must be there and above 0.
  [[nodiscard]] std::uint32_t needed(std::initializer_list<std::string_view> keys) {
    const auto value = number(keys);
    if (!value || *value == 0) fail(*keys.begin(), "is missing or 0");
    return value.value_or(0);
  }
  [[nodiscard]] bool flag(std::string_view key, bool unset) const {
    const Json* value = find(key);
    return value == nullptr || !value->is_boolean() ? unset : value->get<bool>();
  }
  void fail(std::string_view key, std::string what) {
    if (!problem_) problem_ = core::Error{core::ErrorCode::kInvalidInput, std::string{key}, std::move(what), {}};
  }
  [[nodiscard]] const std::optional<core::Error>& problem() const { return problem_; }

 private:
  const Json& object_;
  std::optional<core::Error> problem_;
};

// Layers by the way in which they keep keys and values.
struct Layers {
  std::uint32_t full = 0, windowed = 0, linear = 0;
};

Layers layers_of(Keys& keys, std::uint32_t layers, std::uint32_t window) {
  Layers made;
  if (const Json* types = keys.find("layer_types"); types != nullptr && types->is_array()) {
    for (const Json& type : *types) {
      const std::string text = type.is_string() ? type.get<std::string>() : "";
      const bool is_windowed = text == "sliding_attention" || text == "chunked_attention";
      ++(is_windowed ? made.windowed : text == "linear_attention" ? made.linear : made.full);
    }
    if (types->size() != layers) keys.fail("layer_types", "must have an entry for each layer");
    return made;
  }
  if (const auto every = keys.number({"full_attention_interval"}); every && *every > 0)
    return {layers / *every, 0, layers - layers / *every};
  if (window == 0) return {layers, 0, 0};
  if (const Json* without_rope = keys.find("no_rope_layers"); without_rope != nullptr && without_rope->is_array()) {
    // Llama 4: 0 marks the layers that attend to all tokens.
    for (const Json& each : *without_rope) ++(each == 0 ? made.full : made.windowed);
    if (without_rope->size() == layers) return made;
  }
  if (const auto every = keys.number({"sliding_window_pattern"}); every && *every > 0)
    return {layers / *every, layers - layers / *every, 0};
  // Which layers have the window is not told; without it the KV cache is overestimated.
  return {layers, 0, 0};
}

std::uint32_t window_of(Keys& keys) {
  if (const auto chunk = keys.number({"attention_chunk_size"}); chunk && *chunk > 0) return *chunk;
  // Qwen2 has a window that it does not use.
  return keys.flag("use_sliding_window", true) ? keys.number({"sliding_window"}).value_or(0) : 0;
}

// The state of a gated delta net in 32 bit and its convolution in 16 bit, of one layer and sequence.
double state_bytes(Keys& keys) {
  const double values = keys.needed({"linear_num_value_heads"}), heads = keys.needed({"linear_num_key_heads"});
  const double key_dim = keys.needed({"linear_key_head_dim"}), value_dim = keys.needed({"linear_value_head_dim"});
  const double kernel = keys.needed({"linear_conv_kernel_dim"});
  return values * key_dim * value_dim * 4.0 + (2.0 * heads * key_dim + values * value_dim) * (kernel - 1.0) * 2.0;
}

void read_experts(Keys& keys, ModelCard& card) {
  card.experts = keys.number({"num_local_experts", "n_routed_experts", "num_experts"}).value_or(0);
  if (card.experts == 0) return;
  card.active_experts = keys.needed({"num_experts_per_tok", "moe_topk", "top_k_experts"});
  card.expert_ffn = keys.needed({"moe_intermediate_size", "intermediate_size"});
  card.dense_layers = keys.number({"first_k_dense_replace"}).value_or(0);
  card.shared_experts = keys.number({"n_shared_experts"}).value_or(0);
  const auto shared_width = keys.number({"shared_expert_intermediate_size"});
  if (card.shared_experts == 0 && shared_width && card.expert_ffn > 0)
    card.shared_experts = std::max(1U, *shared_width / card.expert_ffn);
  if (card.active_experts > card.experts) keys.fail("num_experts_per_tok", "is more than the number of experts");
}

void read_attention(Keys& keys, ModelCard& card) {
  card.heads = keys.needed({"num_attention_heads"});
  card.latent_rank = keys.number({"kv_lora_rank"}).value_or(0);
  if (card.latent_rank > 0) {
    card.query_rank = keys.number({"q_lora_rank"}).value_or(card.hidden);
    card.rope_dim = keys.needed({"qk_rope_head_dim"});
    card.head_dim = card.rope_dim + keys.needed({"qk_nope_head_dim"});
    card.value_dim = keys.needed({"v_head_dim"});
    card.kv_heads = 1;
    card.sparse_tokens = keys.number({"index_topk"}).value_or(0);
    return;
  }
  card.kv_heads = keys.number({"num_key_value_heads"}).value_or(card.heads);
  card.head_dim = keys.number({"head_dim", "attention_head_dim"}).value_or(card.hidden / std::max(1U, card.heads));
  card.value_dim = keys.number({"v_head_dim"}).value_or(card.head_dim);
  if (card.kv_heads == 0 || card.kv_heads > card.heads)
    keys.fail("num_key_value_heads", "must be from 1 to num_attention_heads");
}

std::optional<Precision> precision_of(const Json& document) {
  const auto found = document.find("quantization_config");
  if (found == document.end() || !found->is_object()) return std::nullopt;
  const auto method = found->find("quant_method");
  if (method == found->end() || !method->is_string()) return std::nullopt;
  const std::string name = method->get<std::string>();
  if (name == "fp8" || name == "fbgemm_fp8") return Precision::kFp8;
  if (name == "mxfp4") return Precision::kFp4;
  if (const auto bits = found->find("bits"); bits != found->end() && *bits == 4) return Precision::kInt4;
  return std::nullopt;
}

}  // namespace

core::Result<std::shared_ptr<const ConfiguredModel>> parse_model_config(std::string_view json,
                                                                        const std::string& name) {
  const Json document = Json::parse(json, nullptr, false);
  if (!document.is_object()) return core::invalid_input(name, "is no JSON object", "give the config.json of a model");
  const auto text = document.find("text_config");
  Keys keys{text != document.end() && text->is_object() ? *text : document};
  if (keys.find("hybrid_override_pattern") != nullptr || keys.find("mamba_num_heads") != nullptr)
    return core::invalid_input(name, "has Mamba layers, which the roofline does not describe",
                               "measure the engine: penstock profile URL");

  auto made = std::make_shared<ConfiguredModel>();
  made->name = name;
  ModelCard& card = made->card;
  card.name = made->name;
  card.layers = keys.needed({"num_hidden_layers"});
  card.hidden = keys.needed({"hidden_size"});
  card.vocabulary = keys.needed({"vocab_size"});
  read_attention(keys, card);
  read_experts(keys, card);
  card.ffn = keys.number({"intermediate_size"}).value_or(card.expert_ffn);
  if (card.ffn == 0) keys.fail("intermediate_size", "is missing or 0");
  const std::uint32_t window = window_of(keys);
  const Layers layers = layers_of(keys, card.layers, window);
  if (layers.windowed > 0 && layers.linear > 0) keys.fail("layer_types", "has sliding windows beside linear attention");
  if (layers.linear > 0) card.state_bytes = state_bytes(keys);
  if (layers.windowed > 0) card.window = window;
  if (layers.windowed + layers.linear > 0) {
    if (layers.full == 0) keys.fail("layer_types", "has no layer that attends to all tokens");
    card.full_layers = layers.full;
  }
  if (card.dense_layers > card.layers) keys.fail("first_k_dense_replace", "is more than the number of layers");
  if (keys.problem()) {
    core::Error error = *keys.problem();
    error.where = fmt::format("{}: {}", name, error.where);
    return tl::make_unexpected(std::move(error));
  }
  made->precision = precision_of(document);
  return made;
}

core::Result<std::shared_ptr<const ConfiguredModel>> read_model_config(const std::string& path) {
  std::filesystem::path file = path;
  std::error_code error;
  if (std::filesystem::is_directory(file, error)) file /= "config.json";
  const auto text = read_file(file.string(), kBytesMax);
  if (!text) return tl::make_unexpected(text.error());
  return parse_model_config(*text, path);
}

bool is_model_path(std::string_view name) {
  return name.ends_with(".json") || name.starts_with('.') || name.starts_with('/');
}

}  // namespace penstock::engine
