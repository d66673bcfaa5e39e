#include "engine/roofline.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "engine/decode_growth.h"
#include "engine/kv_memory.h"

namespace penstock::engine {
namespace {

constexpr double kReduceLatencyMs = 0.002, kNetworkLatencyMs = 0.02;
// Share of a link's rate that an all-to-all achieves: DeepEP publishes 726 of 900 GB/s in a node, 45 of 50 between two.
constexpr double kExchangeEfficiency = 0.85;

double blend(double a, double b) {
  const double a2 = a * a, b2 = b * b;
  return std::sqrt(std::sqrt(a2 * a2 + b2 * b2));
}

}  // namespace

Precision RooflineSpec::kv_precision() const {
  if (kv_cache) return *kv_cache;
  return precision == Precision::kFp8 || precision == Precision::kFp4 ? Precision::kFp8 : Precision::kBf16;
}

Roofline::Roofline(const RooflineSpec& spec, const RooflineEfficiency& efficiency)
    : spec_{spec}, efficiency_{efficiency} {
  const ModelCard& model = *spec.model;
  const GpuCard& gpu = *spec.gpu;
  const double gpus = spec.tensor_parallel;
  const double ranks = std::min<double>(spec.attention_ranks, gpus), rank_gpus = gpus / ranks;
  const double bytes_per_ms = gpu.bandwidth_gb_per_s * 1e6 * efficiency.bandwidth;
  const double flops_per_ms = gpu.flops_per_ms(spec.precision) * efficiency.compute;  // Of one GPU, as the next.
  const double attention_flops_per_ms = gpu.flops_per_ms(Precision::kBf16) * efficiency.compute;
  const double width = dense_weight_bytes(model, spec.precision);

  // Each attention rank holds the attention of all its layers.
  weights_ms_ =
      ((model.attention_parameters() * ranks + model.dense_parameters()) * width + model.embedding_parameters() * 2.0) /
      gpus / bytes_per_ms;
  experts_ms_ = model.expert_parameters() * bytes_per_weight(spec.precision) / gpus / bytes_per_ms;
  const double own = model.attention_parameters() + model.dense_parameters();
  token_ms_ = 2.0 * own / (flops_per_ms * rank_gpus);
  expert_token_ms_ = 2.0 * (model.active_parameters() - own) / (flops_per_ms * gpus);

  const double full = model.full_layers > 0 ? model.full_layers : model.layers;
  const double windowed = model.window > 0 ? model.layers - full : 0.0;
  // Tensor parallel cannot split a latent, nor fewer KV heads than GPUs: those are held and read by several.
  const double readers = std::min<double>(rank_gpus, model.kv_heads);
  const double layer_kv_ms =
      model.kv_elements_per_token() * kv_element_bytes(spec.kv_precision()) / readers / bytes_per_ms;
  kv_ms_ = full * layer_kv_ms;
  window_kv_ms_ = windowed * layer_kv_ms;
  pair_ms_ = full * model.attention_flops_per_pair() / (attention_flops_per_ms * rank_gpus);
  window_pair_ms_ = windowed * model.attention_flops_per_pair() / (attention_flops_per_ms * rank_gpus);
  context_max_ = model.sparse_tokens > 0 ? model.sparse_tokens : 1e18;
  window_ = model.window;

  const double nodes = std::ceil(gpus / gpu.node_gpus);
  const double link_bytes_per_ms = gpu.interconnect_gb_per_s * 1e6, network_bytes_per_ms = kNetworkGbPerS * 1e6;
  const auto layers_latency_ms = [&](double members) {
    return model.layers * (members > gpu.node_gpus ? kNetworkLatencyMs : kReduceLatencyMs);
  };
  const double hidden = static_cast<double>(model.layers) * model.hidden;
  // Of 16-bit activations; a ring sends them twice.
  const auto ring = [&](double members) {
    double bytes_per_ms_of_link = link_bytes_per_ms * efficiency.interconnect;
    if (members > gpu.node_gpus)
      bytes_per_ms_of_link = std::min(bytes_per_ms_of_link, network_bytes_per_ms * kExchangeEfficiency);
    return 4.0 * hidden * (members - 1.0) / members / bytes_per_ms_of_link;
  };
  if (rank_gpus > 1.0) {
    rank_token_ms_ = ring(rank_gpus);
    reduce_ms_ += layers_latency_ms(rank_gpus);
  }
  if (ranks > 1.0 && model.is_mixture()) {
    // Expected number of other holders of a token's experts, which are chosen uniformly. A token passes the network
    // once for each other node, and from there to its GPUs.
    const auto others = [&](double holders) {
      return (holders - 1.0) * -std::expm1(model.active_experts * std::log1p(-1.0 / holders));
    };
    const double bytes = hidden * (kv_element_bytes(spec.precision) + 2.0) / gpus / kExchangeEfficiency;
    all_token_ms_ = bytes * others(gpus) / link_bytes_per_ms;
    if (nodes > 1.0) all_token_ms_ += bytes * others(nodes) / network_bytes_per_ms;
    reduce_ms_ += 2.0 * layers_latency_ms(gpus);
  } else if (gpus > 1.0) {
    all_token_ms_ = ring(gpus);
    reduce_ms_ += layers_latency_ms(gpus);
  }
  overhead_ms_ = model.layers * efficiency.layer_overhead_us * 1e-3;
  sequence_ms_ = efficiency.sequence_overhead_us * 1e-3;

  if (spec.pipeline_parallel > 1) {
    const double stages = spec.pipeline_parallel - 1.0;
    hop_token_ms_ = stages * 2.0 * model.hidden / (gpu.interconnect_gb_per_s * 1e6 * efficiency.interconnect);
    hop_ms_ = stages * kReduceLatencyMs;
  }
}

// A lone sequence is in one batch only, whatever the number of stages.
double Roofline::batches(const StepShape& shape) const {
  return std::clamp<double>(shape.decode_sequences + shape.prefill_requests, 1.0, spec_.pipeline_parallel);
}

double Roofline::ranks(double sequences) const {
  return std::clamp<double>(sequences, 1.0, std::min(spec_.attention_ranks, spec_.tensor_parallel));
}

double Roofline::fixed_ms(const StepShape& shape) const {
  const double batches = this->batches(shape);
  const double decoding = shape.decode_sequences / batches;
  const double fresh = static_cast<double>(shape.prefill_new_tokens) / batches;
  const double pairs = shape.prefill_attention_pairs / batches;
  double weights = weights_ms_;
  if (experts_ms_ > 0.0) weights += experts_ms_ * spec_.model->experts_touched(decoding + fresh);
  const double of_rank = decoding / ranks(decoding);
  double milliseconds = overhead_ms_ + sequence_ms_ * of_rank + reduce_ms_ + rank_token_ms_ * of_rank +
                        all_token_ms_ * (decoding + fresh) + hop_ms_ + hop_token_ms_ * (decoding + fresh) +
                        blend(weights, token_ms_ * of_rank + expert_token_ms_ * decoding);
  if (shape.prefill_new_tokens > 0)
    milliseconds += expert_token_ms_ * fresh +
                    ((token_ms_ + rank_token_ms_) * fresh + pair_ms_ * std::min(pairs, fresh * context_max_) +
                     window_pair_ms_ * std::min(pairs, fresh * window_)) /
                        ranks(decoding + shape.prefill_requests / batches);
  return milliseconds;
}

double Roofline::context_ms(double context, double sequences) const {
  return (kv_ms_ * std::min(context, sequences * context_max_) +
          window_kv_ms_ * std::min(context, sequences * window_)) /
         ranks(sequences);
}

double Roofline::step_ms(const StepShape& shape) const {
  const double batches = this->batches(shape);
  return fixed_ms(shape) +
         context_ms(static_cast<double>(shape.decode_context_tokens) / batches, shape.decode_sequences / batches);
}

core::Duration Roofline::step(const StepShape& shape) const { return whole_nanoseconds(step_ms(shape) * 1e6); }

DecodeRun Roofline::decode_run(const StepShape& shape, std::uint32_t steps, core::Duration limit) const {
  const double fixed = fixed_ms(shape), batches = this->batches(shape);
  return run_while_growing(shape, steps, limit, [&](std::uint64_t context) {
    return whole_nanoseconds(
        (fixed + context_ms(static_cast<double>(context) / batches, shape.decode_sequences / batches)) * 1e6);
  });
}

std::string Roofline::description() const {
  std::string text = fmt::format("roofline:{},{},tp={}", spec_.model->name, spec_.gpu->name, spec_.tensor_parallel);
  if (spec_.pipeline_parallel > 1) text += fmt::format(",pp={}", spec_.pipeline_parallel);
  if (spec_.attention_ranks > 1) text += fmt::format(",attention_ranks={}", spec_.attention_ranks);
  text += fmt::format(",precision={},backend={}", name_of(spec_.precision), name_of(spec_.backend));
  if (!spec_.release.empty()) text += fmt::format(",release={}", spec_.release);
  if (spec_.memory_utilization != RooflineSpec{}.memory_utilization)
    text += fmt::format(",gpu_memory_utilization={}", spec_.memory_utilization);
  if (spec_.overhead_gib) text += fmt::format(",overhead_gib={}", *spec_.overhead_gib);
  text += spec_.gpu_settings;
  if (spec_.kv_cache) text += fmt::format(",kv_cache_dtype={}", name_of(*spec_.kv_cache));
  return text;
}

}  // namespace penstock::engine
