// Dimensions of models from their published config.json, and the bytes and operations per token that follow from them.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace penstock::engine {

struct ModelCard {
  std::string_view name;  // For example "llama-3.1-8b".
  std::uint32_t layers = 0;
  std::uint32_t hidden = 0;
  std::uint32_t heads = 0;
  std::uint32_t kv_heads = 0;   // 1 for latent attention.
  std::uint32_t head_dim = 0;   // Dimension of queries and keys.
  std::uint32_t value_dim = 0;  // Dimension of values.
  std::uint32_t ffn = 0;        // Inner width of dense layers, which have two input matrices and one output matrix.
  std::uint32_t vocabulary = 0;

  std::uint32_t experts = 0;  // 0 for a dense model.
  std::uint32_t active_experts = 0;
  std::uint32_t shared_experts = 0;
  std::uint32_t expert_ffn = 0;
  std::uint32_t dense_layers = 0;  // Number of leading layers of a mixture that have no experts.

  std::uint32_t latent_rank = 0;  // Width of the compressed KV in multi-head latent attention; 0 if unused.
  std::uint32_t query_rank = 0;   // Width of the compressed query.
  std::uint32_t rope_dim = 0;     // Part of a key that all heads share.

  std::uint32_t full_layers = 0;  // Layers that attend to the whole context; 0 means all.
  // Tokens that the other layers attend to; 0 means that they keep a state of fixed size.
  std::uint32_t window = 0;
  double state_bytes = 0.0;  // Of that state, of one sequence in one layer.
  // Maximum number of tokens that a query reads with sparse attention; 0 means all.
  std::uint32_t sparse_tokens = 0;

  [[nodiscard]] bool is_mixture() const { return experts > 0; }
  [[nodiscard]] double attention_parameters() const;  // Sum over all layers.
  // Feed-forward parameters of dense layers, shared experts and routers.
  [[nodiscard]] double dense_parameters() const;
  [[nodiscard]] double expert_parameters() const;     // All routed experts.
  [[nodiscard]] double embedding_parameters() const;  // The output matrix.
  [[nodiscard]] double parameters() const;            // Sum of all parameters.
  // Parameters that one token is multiplied with, without the output matrix.
  [[nodiscard]] double active_parameters() const;
  [[nodiscard]] double kv_elements_per_token() const;     // Per layer.
  [[nodiscard]] double attention_flops_per_pair() const;  // Per layer and query-key pair.
  // Returns the expected share of routed experts that a batch of `tokens` tokens uses, if each token chooses uniformly
  // and independently.
  [[nodiscard]] double experts_touched(double tokens) const;
};

[[nodiscard]] std::span<const ModelCard> model_catalogue();
// Ignores case, the organisation before "/" and suffixes of tuning or quantisation ("-Instruct", "-FP8", "-NVFP4").
// Returns nullptr if the model is unknown.
[[nodiscard]] const ModelCard* find_model(std::string_view name);

}  // namespace penstock::engine
