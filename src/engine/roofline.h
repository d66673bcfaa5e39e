// Step time from hardware limits: bytes over bandwidth, operations over peak rate, all-reduces and overheads.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "core/result.h"
#include "engine/gpu_catalogue.h"
#include "engine/model_catalogue.h"
#include "engine/roofline_calibration.h"
#include "engine/step_time.h"

namespace penstock::engine {

struct RooflineSpec {
  const ModelCard* model = nullptr;  // An entry of the catalogue, or owned below; so is the GPU.
  const GpuCard* gpu = nullptr;
  std::shared_ptr<const void> own_model{}, own_gpu{};
  std::string gpu_settings{};  // The text of the figures that were given for the GPU.
  // GPUs of one pipeline stage. The experts of a mixture are distributed over them.
  std::uint32_t tensor_parallel = 1;
  std::uint32_t pipeline_parallel = 1;  // Stages, each with an equal share of the layers.
  // Groups of these GPUs that process separate sequences (attention data parallelism).
  std::uint32_t attention_ranks = 1;
  Precision precision = Precision::kBf16;
  Backend backend = Backend::kVllm;
  std::string release{};  // Of the backend, one that was measured. Empty: unknown.
  // Share of a GPU's memory that the engine uses, gpu_memory_utilization of vLLM.
  double memory_utilization = 0.92;
  std::optional<double> overhead_gib{};  // Of one GPU, besides weights and KV cache. Empty: estimated.
  std::optional<Precision> kv_cache{};   // Of keys and values. Empty: 8 bit if the weights have 8 or 4 bit of floats.

  [[nodiscard]] Precision kv_precision() const;
  [[nodiscard]] std::uint32_t gpus() const { return tensor_parallel * pipeline_parallel; }  // GPUs of one replica.
  // Whether each GPU of an attention rank gets as many attention heads as the others. Engines do not start otherwise.
  [[nodiscard]] bool divides_heads() const { return model->heads % (tensor_parallel / attention_ranks) == 0; }
};

// A step that decodes b sequences and computes n prompt tokens takes
//   (w⁴ + c(b)⁴)^¼ + c(n) + attention(n) + k + all-reduce(b + n) + layers·overhead + b·overhead,
// where w is the weights' bytes over bandwidth × efficiency, c(n) the operations of n tokens over peak × efficiency,
// and k the KV bytes over the same bandwidth. The first term blends the memory and compute limits; prompt tokens are
// added because their kernels are compute-bound. A mixture of experts reads the share of experts that b + n tokens use.
// There are 2 all-reduces per layer, each with a ring's bytes over the interconnect's rate × efficiency plus 2 µs. GPUs
// of several nodes communicate at the rate of the network, and with 20 µs.
// With r attention ranks, each has tp/r GPUs, which compute b/r sequences and n/r prompt tokens and share the
// all-reduce after attention. Experts stay distributed over all GPUs: the all-reduce after them becomes
// an all-to-all, in which a token's activations go to and return from the other GPUs that have one of its experts. The
// ranks compute prompts in the same steps; measured engines do, as docs/step-time.md shows. Fewer sequences than ranks
// leave ranks idle.
// A pipeline has as many batches in flight as stages, each with an equal share of the sequences and prompt tokens. A
// step is then the time in which one of them passes all stages, plus the transfers between stages.
class Roofline final : public StepTimeModel {
 public:
  Roofline(const RooflineSpec& spec, const RooflineEfficiency& efficiency);

  [[nodiscard]] core::Duration step(const StepShape& shape) const override;
  [[nodiscard]] DecodeRun decode_run(const StepShape& shape, std::uint32_t steps, core::Duration limit) const override;
  [[nodiscard]] std::string description() const override;

  [[nodiscard]] double step_ms(const StepShape& shape) const;  // The same value without rounding.
  [[nodiscard]] const RooflineSpec& spec() const { return spec_; }
  [[nodiscard]] const RooflineEfficiency& efficiency() const { return efficiency_; }

 private:
  // Batches in flight, among which sequences and prompt tokens are divided.
  [[nodiscard]] double batches(const StepShape& shape) const;
  [[nodiscard]] double fixed_ms(const StepShape& shape) const;
  [[nodiscard]] double ranks(double sequences) const;  // Attention ranks that have one of so many sequences.
  [[nodiscard]] double context_ms(double context, double sequences) const;

  RooflineSpec spec_;
  RooflineEfficiency efficiency_;
  // Milliseconds including efficiencies.
  double weights_ms_ = 0.0, experts_ms_ = 0.0;  // Time to read all dense weights, and all experts.
  // Operations of a token's matrix products: those of its attention rank, and those of experts.
  double token_ms_ = 0.0, expert_token_ms_ = 0.0;
  // Time of a rank per query-key pair in full layers, and in windowed layers.
  double pair_ms_ = 0.0, window_pair_ms_ = 0.0;
  double kv_ms_ = 0.0, window_kv_ms_ = 0.0;  // Time of a rank to read the keys and values of a token.
  double reduce_ms_ = 0.0;                   // Latency of all communication between GPUs.
  // Communication per token of a rank, and per token of all.
  double rank_token_ms_ = 0.0, all_token_ms_ = 0.0;
  double hop_ms_ = 0.0, hop_token_ms_ = 0.0;  // Transfers between all stages, and of a token.
  double overhead_ms_ = 0.0, sequence_ms_ = 0.0;
  // Maximum number of tokens that a query reads, and that of a windowed layer.
  double context_max_ = 0.0, window_ = 0.0;
};

// Format: "MODEL,GPU[,SETTING=VALUE]…". Settings: tp, pp, attention_ranks, precision, backend, release, bandwidth,
// compute, layer_us, sequence_us, interconnect, gpu_memory_utilization, overhead_gib, kv_cache_dtype, and of the GPU:
// gpu_memory_gib, gpu_bandwidth_gb_s, gpu_bf16_tflops, gpu_fp8_tflops, gpu_fp4_tflops, gpu_interconnect_gb_s. MODEL is
// a name of the catalogue or the path of a config.json; a GPU that is not in the catalogue needs its memory, bandwidth
// and bf16_tflops. Defaults: tp 1, pp 1, bf16 or the precision of the config.json, vllm, and the calibrated values of
// that backend. Errors name the setting and the valid values, attention heads that tp does not divide, or weights that
// do not fit the GPUs.
[[nodiscard]] core::Result<Roofline> parse_roofline(std::string_view text);
// The same, but heads and weights need not fit the GPUs.
[[nodiscard]] core::Result<Roofline> parse_roofline_of_any_memory(std::string_view text);

}  // namespace penstock::engine
