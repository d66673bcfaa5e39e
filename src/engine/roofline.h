// Step time from first principles: bytes over bandwidth, operations over peak rate, all-reduces, overheads.
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
  const ModelCard* model = nullptr;  // of the catalogue
  const GpuCard* gpu = nullptr;
  std::uint32_t tensor_parallel = 1;  // GPUs of one replica; a mixture's experts are spread over them
  std::uint32_t attention_ranks = 1;  // groups of these GPUs with sequences of their own (attention data parallel)
  Precision precision = Precision::kBf16;
  Backend backend = Backend::kVllm;
};

// With w, the weights' bytes over bandwidth × efficiency, c(n), the operations of n tokens over peak × efficiency, and
// k, the KV bytes read over the same bandwidth, a step that decodes b sequences and computes n prompt tokens takes
//   (w⁴ + c(b)⁴)^¼ + c(n) + attention(n) + k + all-reduce(b + n) + layers·overhead + b·overhead.
// The two roofs blend where they meet; prompt tokens are added because their kernels run at the roof of compute. A
// mixture of experts reads the share of experts that b + n tokens touch. All-reduce: 2 a layer, each a ring's bytes
// over the interconnect's rate × efficiency plus 2 µs.
class Roofline final : public StepTimeModel {
 public:
  Roofline(const RooflineSpec& spec, const RooflineEfficiency& efficiency);

  [[nodiscard]] core::Duration step(const StepShape& shape) const override;
  [[nodiscard]] DecodeRun decode_run(const StepShape& shape, std::uint32_t steps, core::Duration limit) const override;
  [[nodiscard]] std::string description() const override;

  [[nodiscard]] double step_ms(const StepShape& shape) const;  // the same, not rounded
  // Tokens whose keys and values fit beside the weights: 0.9 of the memory, 2 GB a GPU kept for activations.
  [[nodiscard]] double kv_capacity_tokens() const;
  [[nodiscard]] const RooflineSpec& spec() const { return spec_; }
  [[nodiscard]] const RooflineEfficiency& efficiency() const { return efficiency_; }

 private:
  [[nodiscard]] double fixed_ms(const StepShape& shape) const;
  [[nodiscard]] double context_ms(std::uint64_t tokens, std::uint32_t sequences) const;

  RooflineSpec spec_;
  RooflineEfficiency efficiency_;
  // Milliseconds, efficiencies included.
  double weights_ms_ = 0.0, experts_ms_ = 0.0;   // to read all dense weights, all experts
  double token_ms_ = 0.0;                        // operations of a token's matrix products
  double pair_ms_ = 0.0, window_pair_ms_ = 0.0;  // of a query-key pair: in full layers, in windowed ones
  double kv_ms_ = 0.0, window_kv_ms_ = 0.0;      // to read a token's keys and values
  double reduce_ms_ = 0.0, reduce_token_ms_ = 0.0;
  double overhead_ms_ = 0.0, sequence_ms_ = 0.0;
  double context_max_ = 0.0, window_ = 0.0;  // tokens that a query reads at most; of a windowed layer
};

// "MODEL,GPU[,tp=N][,precision=P][,backend=B][,bandwidth=E][,compute=E][,layer_us=T][,sequence_us=T][,interconnect=E]".
// Defaults: tp 1, bf16, vllm, and the calibrated figures of that engine. Errors name the setting, what is known, and
// weights that do not fit the GPUs.
[[nodiscard]] core::Result<Roofline> parse_roofline(std::string_view text);

}  // namespace penstock::engine
