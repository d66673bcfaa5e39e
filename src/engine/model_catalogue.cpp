#include "engine/model_catalogue.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <string>

namespace penstock::engine {
namespace {

constexpr ModelCard dense(std::string_view name, std::uint32_t layers, std::uint32_t hidden, std::uint32_t heads,
                          std::uint32_t kv_heads, std::uint32_t head_dim, std::uint32_t ffn, std::uint32_t vocabulary) {
  return {.name = name,
          .layers = layers,
          .hidden = hidden,
          .heads = heads,
          .kv_heads = kv_heads,
          .head_dim = head_dim,
          .value_dim = head_dim,
          .ffn = ffn,
          .vocabulary = vocabulary};
}

struct Experts {
  std::uint32_t count, active, shared, ffn, dense_layers;
};

constexpr ModelCard mixture(ModelCard card, Experts experts) {
  card.experts = experts.count;
  card.active_experts = experts.active;
  card.shared_experts = experts.shared;
  card.expert_ffn = experts.ffn;
  card.dense_layers = experts.dense_layers;
  return card;
}

struct Latent {
  std::uint32_t rank, query_rank, rope_dim, value_dim;
};

constexpr ModelCard latent(ModelCard card, Latent attention) {
  card.latent_rank = attention.rank;
  card.query_rank = attention.query_rank;
  card.rope_dim = attention.rope_dim;
  card.value_dim = attention.value_dim;
  return card;
}

constexpr ModelCard partial(ModelCard card, std::uint32_t full_layers, std::uint32_t window) {
  card.full_layers = full_layers;
  card.window = window;
  return card;
}

constexpr ModelCard linear(ModelCard card, double state_bytes) {
  card.state_bytes = state_bytes;
  return card;
}

constexpr ModelCard sparse(ModelCard card, std::uint32_t tokens) {
  card.sparse_tokens = tokens;
  return card;
}

constexpr std::array kModels = {
    //     name             layers hidden heads kv  dim  ffn    vocabulary
    dense("llama-3.2-1b", 16, 2048, 32, 8, 64, 8192, 128256),
    dense("llama-3.2-3b", 28, 3072, 24, 8, 128, 8192, 128256),
    dense("llama-2-7b", 32, 4096, 32, 32, 128, 11008, 32000),
    dense("llama-2-70b", 80, 8192, 64, 8, 128, 28672, 32000),
    dense("llama-3.1-8b", 32, 4096, 32, 8, 128, 14336, 128256),
    dense("llama-3.1-70b", 80, 8192, 64, 8, 128, 28672, 128256),
    dense("llama-3.1-405b", 126, 16384, 128, 8, 128, 53248, 128256),
    dense("mistral-7b", 32, 4096, 32, 8, 128, 14336, 32768),
    dense("qwen2.5-7b", 28, 3584, 28, 4, 128, 18944, 152064),
    dense("qwen2.5-32b", 64, 5120, 40, 8, 128, 27648, 152064),
    dense("qwen2.5-72b", 80, 8192, 64, 8, 128, 29568, 152064),
    dense("qwen3-0.6b", 28, 1024, 16, 8, 128, 3072, 151936),
    dense("qwen3-1.7b", 28, 2048, 16, 8, 128, 6144, 151936),
    dense("qwen3-4b", 36, 2560, 32, 8, 128, 9728, 151936),
    dense("qwen3-8b", 36, 4096, 32, 8, 128, 12288, 151936),
    dense("qwen3-14b", 40, 5120, 40, 8, 128, 17408, 151936),
    dense("qwen3-32b", 64, 5120, 64, 8, 128, 25600, 151936),
    mixture(dense("mixtral-8x7b", 32, 4096, 32, 8, 128, 14336, 32000), {8, 2, 0, 14336, 0}),
    mixture(dense("mixtral-8x22b", 56, 6144, 48, 8, 128, 16384, 32768), {8, 2, 0, 16384, 0}),
    mixture(dense("qwen3-30b-a3b", 48, 2048, 32, 4, 128, 6144, 151936), {128, 8, 0, 768, 0}),
    mixture(dense("qwen3-235b-a22b", 94, 4096, 64, 4, 128, 12288, 151936), {128, 8, 0, 1536, 0}),
    // Three of four layers are linear attention: 64 heads with states of 128 × 128 in 32 bit, and a convolution of 4.
    linear(
        partial(mixture(dense("qwen3.5-397b-a17b", 60, 4096, 32, 2, 256, 1024, 248320), {512, 10, 1, 1024, 0}), 15, 0),
        64.0 * 128 * 128 * 4 + 12288.0 * 3 * 2),
    // Every other layer sees 128 tokens.
    partial(mixture(dense("gpt-oss-20b", 24, 2880, 64, 8, 64, 2880, 201088), {32, 4, 0, 2880, 0}), 12, 128),
    partial(mixture(dense("gpt-oss-120b", 36, 2880, 64, 8, 64, 2880, 201088), {128, 4, 0, 2880, 0}), 18, 128),
    mixture(dense("minimax-m2.5", 62, 3072, 48, 8, 128, 1536, 200064), {256, 8, 0, 1536, 0}),
    latent(mixture(dense("deepseek-v3", 61, 7168, 128, 1, 192, 18432, 129280), {256, 8, 1, 2048, 3}),
           {512, 1536, 64, 128}),
    latent(mixture(dense("kimi-k2.5", 61, 7168, 64, 1, 192, 18432, 163840), {384, 8, 1, 2048, 1}),
           {512, 1536, 64, 128}),
    sparse(latent(mixture(dense("glm-5", 78, 6144, 64, 1, 256, 12288, 154880), {256, 8, 1, 2048, 3}),
                  {512, 2048, 64, 256}),
           2048),
};

struct Alias {
  std::string_view name, of;
};
constexpr std::array kAliases = {
    Alias{"deepseek-r1", "deepseek-v3"},     Alias{"deepseek-r1-0528", "deepseek-v3"},
    Alias{"deepseek-v3.1", "deepseek-v3"},   Alias{"deepseek-v3-0324", "deepseek-v3"},
    Alias{"kimi-k2", "kimi-k2.5"},           Alias{"minimax-m2", "minimax-m2.5"},
    Alias{"llama-3-8b", "llama-3.1-8b"},     Alias{"llama-3-70b", "llama-3.1-70b"},
    Alias{"llama-3.3-70b", "llama-3.1-70b"}, Alias{"deepseek-r1-distill-llama-70b", "llama-3.1-70b"},
    Alias{"qwq-32b", "qwen2.5-32b"},
};

constexpr std::array<std::string_view, 10> kEndings = {"-instruct", "-chat", "-fp8", "-nvfp4", "-fp4",
                                                       "-int4",     "-bf16", "-it",  "-hf",    "-base"};

// "nvidia/Llama-3.1-8B-Instruct-FP8" → "llama-3.1-8b".
std::string plain_name(std::string_view name) {
  if (const auto slash = name.rfind('/'); slash != std::string_view::npos) name.remove_prefix(slash + 1);
  std::string plain;
  for (const char c : name) plain += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  for (bool cut = true; cut;) {
    cut = false;
    for (const std::string_view ending : kEndings) {
      if (!plain.ends_with(ending)) continue;
      plain.resize(plain.size() - ending.size());
      cut = true;
    }
  }
  if (plain.starts_with("meta-")) plain.erase(0, 5);
  return plain;
}

}  // namespace

double ModelCard::attention_parameters() const {
  const double h = hidden, n = heads, d = head_dim, v = value_dim, l = layers;
  if (latent_rank > 0) {
    const double r = latent_rank, q = query_rank, rope = rope_dim;
    return l * (h * q + q * n * d + h * (r + rope) + r * n * (d - rope + v) + n * v * h);
  }
  return l * (h * n * d + 2.0 * h * kv_heads * d + n * v * h);
}

double ModelCard::dense_parameters() const {
  const double h = hidden;
  if (!is_mixture()) return 3.0 * h * ffn * layers;
  const double mixed = layers - dense_layers;
  return 3.0 * h * ffn * dense_layers + mixed * (3.0 * h * expert_ffn * shared_experts + h * experts);
}

double ModelCard::expert_parameters() const {
  return 3.0 * hidden * static_cast<double>(expert_ffn) * experts * (layers - dense_layers);
}

double ModelCard::embedding_parameters() const { return static_cast<double>(vocabulary) * hidden; }

double ModelCard::parameters() const {
  return attention_parameters() + dense_parameters() + expert_parameters() + 2.0 * embedding_parameters();
}

double ModelCard::active_parameters() const {
  const double share = is_mixture() ? static_cast<double>(active_experts) / experts : 0.0;
  return attention_parameters() + dense_parameters() + share * expert_parameters();
}

double ModelCard::kv_elements_per_token() const {
  if (latent_rank > 0) return latent_rank + rope_dim;
  return static_cast<double>(kv_heads) * (head_dim + value_dim);
}

double ModelCard::attention_flops_per_pair() const { return 2.0 * heads * (head_dim + value_dim); }

double ModelCard::experts_touched(double tokens) const {
  if (!is_mixture()) return 0.0;
  return -std::expm1(tokens * std::log1p(-static_cast<double>(active_experts) / experts));
}

std::span<const ModelCard> model_catalogue() { return kModels; }

const ModelCard* find_model(std::string_view name) {
  std::string plain = plain_name(name);
  for (const Alias& alias : kAliases)
    if (alias.name == plain) plain = alias.of;
  const auto found = std::find_if(kModels.begin(), kModels.end(), [&](const ModelCard& m) { return m.name == plain; });
  return found == kModels.end() ? nullptr : &*found;
}

}  // namespace penstock::engine
