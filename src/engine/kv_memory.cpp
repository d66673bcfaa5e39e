#include "engine/kv_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace penstock::engine {
namespace {

constexpr double kGib = 1024.0 * 1024.0 * 1024.0;
constexpr std::uint32_t kStateBlockTokens = 16;  // vLLM rounds the block that holds a state up to a multiple of this.
// Overhead of engines in GiB, from logs of vLLM: 1.2 without CUDA graphs and with short batches; 2.2 to 3.1 of dense
// models; of mixtures 7.5 on one GPU, 7.0 on two and 4.5 on eight.
constexpr double kBaseGib = 1.2, kGraphsGib = 0.6;
constexpr double kMixtureGib = 4.1, kMixtureGpuGib = 3.4;
// A sequence that runs needs its state, but not more than this share of the memory is set aside for states.
constexpr double kSequencesShareMax = 0.5;

std::uint32_t rounded_up(double value, std::uint32_t unit) {
  return static_cast<std::uint32_t>(std::ceil(value / unit)) * unit;
}

std::uint64_t ceil_of(std::uint64_t value, std::uint64_t unit) { return (value + unit - 1) / unit; }

// GPUs that share the attention of one sequence.
double gpus_of_attention(const RooflineSpec& spec) {
  return std::max(1.0, static_cast<double>(spec.tensor_parallel) / spec.attention_ranks);
}

// Layers of the largest stage.
std::uint32_t layers_of_stage(std::uint32_t layers, const RooflineSpec& spec) {
  return (layers + spec.pipeline_parallel - 1) / spec.pipeline_parallel;
}

double weights_gib(const RooflineSpec& spec) {
  const ModelCard& model = *spec.model;
  const double ranks = std::min(spec.attention_ranks, spec.tensor_parallel);
  const double width = dense_weight_bytes(model, spec.precision);
  const double layers = (model.attention_parameters() * ranks + model.dense_parameters()) * width +
                        model.expert_parameters() * bytes_per_weight(spec.precision);
  // The first stage has the embeddings and the last one the output matrix, both in 16 bit.
  const double embeddings = model.embedding_parameters() * (spec.pipeline_parallel > 1 ? 2.0 : 4.0);
  const double share = static_cast<double>(layers_of_stage(model.layers, spec)) / model.layers;
  return (layers * share + embeddings) / spec.tensor_parallel / kGib;
}

double overhead_gib(const RooflineSpec& spec, double batched_tokens) {
  if (spec.overhead_gib) return *spec.overhead_gib;
  const ModelCard& model = *spec.model;
  if (model.is_mixture()) return kMixtureGib + kMixtureGpuGib / spec.tensor_parallel;
  const double width = 2.0 * model.ffn / spec.tensor_parallel + 2.0 * model.hidden;
  return kBaseGib + kGraphsGib + batched_tokens * width * 2.0 / kGib;
}

}  // namespace

// 4-bit mixtures are published with experts in 4 bit and the rest in 16; dense models in 4 bit throughout.
double dense_weight_bytes(const ModelCard& model, Precision precision) {
  const bool four_bit = precision == Precision::kFp4 || precision == Precision::kInt4;
  return model.is_mixture() && four_bit ? 2.0 : bytes_per_weight(precision);
}

double kv_element_bytes(Precision precision) {
  return precision == Precision::kFp8 || precision == Precision::kFp4 ? 1.0 : 2.0;
}

double KvLayout::sequence_bytes() const {
  const double windowed = window > 0 ? static_cast<double>(ceil_of(window, block_tokens) + 1) : 0.0;
  return (windowed_groups * windowed + state_groups) * block_tokens * group_token_bytes;
}

std::uint64_t KvLayout::blocks(double kv_bytes) const {
  return static_cast<std::uint64_t>(std::max(0.0, std::floor(kv_bytes / (block_tokens * group_token_bytes))));
}

std::uint64_t KvLayout::blocks_of_request(std::uint64_t tokens, std::uint64_t batched_tokens) const {
  std::uint64_t sum = full_groups * ceil_of(tokens, block_tokens) + state_groups;
  if (windowed_groups > 0)
    sum += windowed_groups * (ceil_of(std::min(tokens, window - 1 + batched_tokens), block_tokens) + 1);
  return sum;
}

double KvLayout::concurrency(double kv_bytes, std::uint64_t tokens, std::uint64_t batched_tokens) const {
  return static_cast<double>(blocks(kv_bytes)) / static_cast<double>(blocks_of_request(tokens, batched_tokens));
}

KvLayout kv_layout(const RooflineSpec& spec, std::uint32_t block_tokens) {
  const ModelCard& model = *spec.model;
  const std::uint32_t full = layers_of_stage(model.full_layers > 0 ? model.full_layers : model.layers, spec);
  const std::uint32_t other = layers_of_stage(model.layers, spec) - std::min(full, layers_of_stage(model.layers, spec));
  // Groups have as many layers as the rarer kind; kinds that are nearly as frequent are padded to the larger one.
  std::uint32_t group = full;
  if (other > 0) {
    const std::uint32_t small = std::min(full, other), large = std::max(full, other);
    group = large < 1.25 * small ? large : small;
  }
  KvLayout layout;
  layout.block_tokens = block_tokens;
  // Fewer KV heads than GPUs are replicated, and a latent is on every GPU.
  const double shards = std::min<double>(gpus_of_attention(spec), model.kv_heads);
  const double layer_bytes = model.kv_elements_per_token() * kv_element_bytes(spec.kv_precision()) / shards;
  layout.group_token_bytes = group * layer_bytes;
  layout.full_groups = static_cast<std::uint32_t>(ceil_of(full, group));
  const auto others = static_cast<std::uint32_t>(ceil_of(other, group));
  if (model.window > 0) {
    layout.windowed_groups = others;
    layout.window = model.window;
  } else if (others > 0) {
    layout.state_groups = others;
    const double state = model.state_bytes / gpus_of_attention(spec);
    layout.block_tokens = std::max(block_tokens, rounded_up(state / layer_bytes, kStateBlockTokens));
  }
  return layout;
}

KvMemory kv_memory(const RooflineSpec& spec, const MemorySettings& settings) {
  const KvLayout layout = kv_layout(spec, settings.block_tokens);
  KvMemory memory;
  memory.total_gib = spec.gpu->driver_gib;
  memory.weights_gib = weights_gib(spec);
  memory.overhead_gib = overhead_gib(spec, settings.max_batched_tokens);
  memory.kv_gib = spec.memory_utilization * memory.total_gib - memory.weights_gib - memory.overhead_gib;
  memory.token_bytes = layout.token_bytes();
  memory.sequence_bytes = layout.sequence_bytes();
  const double ranks = std::min(spec.attention_ranks, spec.tensor_parallel);
  const auto tokens = [&](double gib) {
    const double bytes = std::max(0.0, gib) * kGib;
    const double sequences =
        std::min(memory.sequence_bytes * settings.max_sequences / ranks, bytes * kSequencesShareMax);
    return ranks * (bytes - sequences) / memory.token_bytes;
  };
  memory.tokens = tokens(memory.kv_gib);
  memory.most_tokens = tokens(memory.total_gib - memory.weights_gib);
  return memory;
}

std::string describe(const KvMemory& memory, const RooflineSpec& spec) {
  std::string text = fmt::format(
      "{} of {:.2f} GiB a GPU, less {:.1f} GiB of weights ({}) and {:.1f} GiB of overhead, leaves {:.1f} GiB at {:.0f} "
      "bytes a token (KV cache in {})",
      spec.memory_utilization, memory.total_gib, memory.weights_gib, name_of(spec.precision), memory.overhead_gib,
      memory.kv_gib, memory.token_bytes, name_of(spec.kv_precision()));
  if (memory.sequence_bytes > 0.0) text += fmt::format(" and {:.1f} MiB a sequence", memory.sequence_bytes / 1048576.0);
  return text;
}

}  // namespace penstock::engine
