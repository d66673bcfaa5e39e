#include "engine/roofline.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "engine/decode_growth.h"

namespace penstock::engine {
namespace {

constexpr double kReduceLatencyMs = 0.002;
constexpr double kMemoryShare = 0.9, kActivationBytes = 2e9;

// 4-bit mixtures are published with experts in 4 bit and the rest in 16; dense models in 4 bit throughout.
double dense_weight_bytes(const ModelCard& model, Precision precision) {
  const bool four_bit = precision == Precision::kFp4 || precision == Precision::kInt4;
  return model.is_mixture() && four_bit ? 2.0 : bytes_per_weight(precision);
}

// Keys and values are kept in 8 bit where the matrix products are 8 or 4 bit wide.
double kv_element_bytes(Precision precision) {
  return precision == Precision::kFp8 || precision == Precision::kFp4 ? 1.0 : 2.0;
}

double blend(double a, double b) {
  const double a2 = a * a, b2 = b * b;
  return std::sqrt(std::sqrt(a2 * a2 + b2 * b2));
}

}  // namespace

Roofline::Roofline(const RooflineSpec& spec, const RooflineEfficiency& efficiency)
    : spec_{spec}, efficiency_{efficiency} {
  const ModelCard& model = *spec.model;
  const GpuCard& gpu = *spec.gpu;
  const double gpus = spec.tensor_parallel;
  const double ranks = std::min<double>(spec.attention_ranks, gpus);
  const double bytes_per_ms = gpu.bandwidth_gb_per_s * 1e6 * efficiency.bandwidth;
  const double flops_per_ms = gpu.flops_per_ms(spec.precision) * efficiency.compute * gpus;
  const double attention_flops_per_ms = gpu.flops_per_ms(Precision::kBf16) * efficiency.compute * gpus;
  const double width = dense_weight_bytes(model, spec.precision);

  // Each attention rank holds the attention of all its layers.
  weights_ms_ =
      ((model.attention_parameters() * ranks + model.dense_parameters()) * width + model.embedding_parameters() * 2.0) /
      gpus / bytes_per_ms;
  experts_ms_ = model.expert_parameters() * bytes_per_weight(spec.precision) / gpus / bytes_per_ms;
  token_ms_ = 2.0 * model.active_parameters() / flops_per_ms;

  const double full = model.full_layers > 0 ? model.full_layers : model.layers;
  const double windowed = model.window > 0 ? model.layers - full : 0.0;
  // Tensor parallel cannot split a latent, nor fewer KV heads than GPUs: those are held and read by several.
  const double readers = std::min(gpus, ranks * model.kv_heads);
  const double layer_kv_ms = model.kv_elements_per_token() * kv_element_bytes(spec.precision) / readers / bytes_per_ms;
  kv_ms_ = full * layer_kv_ms;
  window_kv_ms_ = windowed * layer_kv_ms;
  pair_ms_ = full * model.attention_flops_per_pair() / attention_flops_per_ms;
  window_pair_ms_ = windowed * model.attention_flops_per_pair() / attention_flops_per_ms;
  context_max_ = model.sparse_tokens > 0 ? model.sparse_tokens : 1e18;
  window_ = model.window;

  if (spec.tensor_parallel > 1) {
    const double bytes = 2.0 * model.layers * 2.0 * model.hidden * 2.0 * (gpus - 1.0) / gpus;
    reduce_token_ms_ = bytes / (gpu.interconnect_gb_per_s * 1e6 * efficiency.interconnect);
    reduce_ms_ = 2.0 * model.layers * kReduceLatencyMs;
  }
  overhead_ms_ = model.layers * efficiency.layer_overhead_us * 1e-3;
  sequence_ms_ = efficiency.sequence_overhead_us * 1e-3 / ranks;
}

double Roofline::fixed_ms(const StepShape& shape) const {
  const double decoding = shape.decode_sequences, fresh = static_cast<double>(shape.prefill_new_tokens);
  double weights = weights_ms_;
  if (experts_ms_ > 0.0) weights += experts_ms_ * spec_.model->experts_touched(decoding + fresh);
  double milliseconds = overhead_ms_ + sequence_ms_ * decoding + reduce_ms_ + reduce_token_ms_ * (decoding + fresh) +
                        blend(weights, token_ms_ * decoding);
  if (shape.prefill_new_tokens > 0)
    milliseconds += token_ms_ * fresh + pair_ms_ * std::min(shape.prefill_attention_pairs, fresh * context_max_) +
                    window_pair_ms_ * std::min(shape.prefill_attention_pairs, fresh * window_);
  return milliseconds;
}

double Roofline::context_ms(std::uint64_t tokens, std::uint32_t sequences) const {
  const auto context = static_cast<double>(tokens);
  return kv_ms_ * std::min(context, sequences * context_max_) + window_kv_ms_ * std::min(context, sequences * window_);
}

double Roofline::step_ms(const StepShape& shape) const {
  return fixed_ms(shape) + context_ms(shape.decode_context_tokens, shape.decode_sequences);
}

core::Duration Roofline::step(const StepShape& shape) const { return whole_nanoseconds(step_ms(shape) * 1e6); }

DecodeRun Roofline::decode_run(const StepShape& shape, std::uint32_t steps, core::Duration limit) const {
  const double fixed = fixed_ms(shape);
  return run_while_growing(shape, steps, limit, [&](std::uint64_t context) {
    return whole_nanoseconds((fixed + context_ms(context, shape.decode_sequences)) * 1e6);
  });
}

double Roofline::kv_capacity_tokens() const {
  const ModelCard& model = *spec_.model;
  const double gpus = spec_.tensor_parallel, ranks = std::min<double>(spec_.attention_ranks, gpus);
  const double width = dense_weight_bytes(model, spec_.precision);
  const double weights = (model.attention_parameters() * ranks + model.dense_parameters()) * width +
                         model.expert_parameters() * bytes_per_weight(spec_.precision) +
                         model.embedding_parameters() * 4.0;
  const double spare = kMemoryShare * spec_.gpu->memory_gb * 1e9 * gpus - kActivationBytes * gpus - weights;
  const double copies = gpus / std::min(gpus, ranks * model.kv_heads);
  const double layers = model.full_layers > 0 ? model.full_layers : model.layers;
  return std::max(0.0, spare / (layers * model.kv_elements_per_token() * kv_element_bytes(spec_.precision) * copies));
}

std::string Roofline::description() const {
  return fmt::format("roofline:{},{},tp={},precision={},backend={}", spec_.model->name, spec_.gpu->name,
                     spec_.tensor_parallel, name_of(spec_.precision), name_of(spec_.backend));
}

}  // namespace penstock::engine
