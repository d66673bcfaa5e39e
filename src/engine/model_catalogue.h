// Dimensions of models, from the config.json that each is published with, and what follows from them: bytes to read and
// operations to do for a token.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace penstock::engine {

struct ModelCard {
  std::string_view name;  // "llama-3.1-8b"
  std::uint32_t layers = 0;
  std::uint32_t hidden = 0;
  std::uint32_t heads = 0;
  std::uint32_t kv_heads = 0;   // with latent attention: 1
  std::uint32_t head_dim = 0;   // of queries and keys
  std::uint32_t value_dim = 0;  // of values
  std::uint32_t ffn = 0;        // inner width of dense layers; two matrices in, one out
  std::uint32_t vocabulary = 0;

  std::uint32_t experts = 0;  // 0: a dense model
  std::uint32_t active_experts = 0;
  std::uint32_t shared_experts = 0;
  std::uint32_t expert_ffn = 0;
  std::uint32_t dense_layers = 0;  // of a mixture: its first layers, which have no experts

  std::uint32_t latent_rank = 0;  // multi-head latent attention: the width of the compressed KV; 0: none
  std::uint32_t query_rank = 0;   // and of the compressed query
  std::uint32_t rope_dim = 0;     // the part of a key that is shared by all heads

  std::uint32_t full_layers = 0;    // layers that attend to the whole context; 0: all
  std::uint32_t window = 0;         // tokens that the other layers see; 0: those keep a state of fixed size
  std::uint32_t sparse_tokens = 0;  // sparse attention: most tokens that a query reads; 0: all

  [[nodiscard]] bool is_mixture() const { return experts > 0; }
  [[nodiscard]] double attention_parameters() const;      // of all layers
  [[nodiscard]] double dense_parameters() const;          // feed-forward of dense layers, shared experts, routers
  [[nodiscard]] double expert_parameters() const;         // of all routed experts
  [[nodiscard]] double embedding_parameters() const;      // of the output matrix
  [[nodiscard]] double parameters() const;                // all of them
  [[nodiscard]] double active_parameters() const;         // that one token is multiplied with, output matrix excluded
  [[nodiscard]] double kv_elements_per_token() const;     // in one layer
  [[nodiscard]] double attention_flops_per_pair() const;  // of one layer and one query-key pair
  // Share of the routed experts that a batch of so many tokens touches, when each picks evenly and alone.
  [[nodiscard]] double experts_touched(double tokens) const;
};

[[nodiscard]] std::span<const ModelCard> model_catalogue();
// Whatever the case, the organisation before "/" and endings that name a tuning or a quantisation ("-Instruct", "-FP8",
// "-NVFP4"); nullptr when unknown.
[[nodiscard]] const ModelCard* find_model(std::string_view name);

}  // namespace penstock::engine
