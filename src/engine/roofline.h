// Step time from hardware limits: bytes over bandwidth, operations over peak rate, all-reduces and overheads.
#pragma once

#include <cstdint>
#include <string>

#include "core/result.h"
#include "engine/gpu_catalogue.h"
#include "engine/model_catalogue.h"
#include "engine/roofline_calibration.h"
#include "engine/step_time.h"

namespace penstock::engine {

struct RooflineSpec {
  const ModelCard* model = nullptr;  // An entry of the catalogue.
  const GpuCard* gpu = nullptr;
  // GPUs of one replica. The experts of a mixture are distributed over them.
  std::uint32_t tensor_parallel = 1;
  // Groups of these GPUs that process separate sequences (attention data parallelism).
  std::uint32_t attention_ranks = 1;
  Precision precision = Precision::kBf16;
  Backend backend = Backend::kVllm;
};

// A step that decodes b sequences and computes n prompt tokens takes
//   (w⁴ + c(b)⁴)^¼ + c(n) + attention(n) + k + all-reduce(b + n) + layers·overhead + b·overhead,
// where w is the weights' bytes over bandwidth × efficiency, c(n) the operations of n tokens over peak × efficiency,
// and k the KV bytes over the same bandwidth. The first term blends the memory and compute limits; prompt tokens are
// added because their kernels are compute-bound. A mixture of experts reads the share of experts that b + n tokens use.
// There are 2 all-reduces per layer, each with a ring's bytes over the interconnect's rate × efficiency plus 2 µs.
class Roofline final : public StepTimeModel {
 public:
  Roofline(const RooflineSpec& spec, const RooflineEfficiency& efficiency);

  [[nodiscard]] core::Duration step(const StepShape& shape) const override;
  [[nodiscard]] DecodeRun decode_run(const StepShape& shape, std::uint32_t steps, core::Duration limit) const override;
  [[nodiscard]] std::string description() const override;

  [[nodiscard]] double step_ms(const StepShape& shape) const;  // The same value without rounding.
  // Tokens whose keys and values fit beside the weights: 0.9 of the memory, minus 2 GB per GPU for activations.
  [[nodiscard]] double kv_capacity_tokens() const;
  [[nodiscard]] const RooflineSpec& spec() const { return spec_; }
  [[nodiscard]] const RooflineEfficiency& efficiency() const { return efficiency_; }

 private:
  [[nodiscard]] double fixed_ms(const StepShape& shape) const;
  [[nodiscard]] double context_ms(std::uint64_t tokens, std::uint32_t sequences) const;

  RooflineSpec spec_;
  RooflineEfficiency efficiency_;
  // Milliseconds including efficiencies.
  double weights_ms_ = 0.0, experts_ms_ = 0.0;  // Time to read all dense weights, and all experts.
  double token_ms_ = 0.0;                       // Operations of a token's matrix products.
  // Time per query-key pair in full layers, and in windowed layers.
  double pair_ms_ = 0.0, window_pair_ms_ = 0.0;
  double kv_ms_ = 0.0, window_kv_ms_ = 0.0;  // Time to read the keys and values of a token.
  double reduce_ms_ = 0.0, reduce_token_ms_ = 0.0;
  double overhead_ms_ = 0.0, sequence_ms_ = 0.0;
  // Maximum number of tokens that a query reads, and that of a windowed layer.
  double context_max_ = 0.0, window_ = 0.0;
};

// Format:
// "MODEL,GPU[,tp=N][,precision=P][,backend=B][,bandwidth=E][,compute=E][,layer_us=T][,sequence_us=T][,interconnect=E]".
// Defaults: tp 1, bf16, vllm, and the calibrated values of that backend. Errors name the setting and the valid values,
// or weights that do not fit the GPUs.
[[nodiscard]] core::Result<Roofline> parse_roofline(std::string_view text);

}  // namespace penstock::engine
