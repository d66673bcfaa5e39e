// Test support: small synthetic measurement rows, or the measurements that may be stored beside the repository.
#pragma once

#include <fmt/format.h>

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "core/source_root_testing.h"
#include "engine/roofline.h"
#include "fidelity/closed_form.h"

namespace penstock::fidelity::testing {

inline constexpr std::string_view kHeader =
    "backend,backend_version,model_path,system,precision,mode,isl,osl,batch_size,tp_size,pp_size,attention_dp_size,"
    "moe_tp_size,moe_ep_size,prefill_batch_size,prefill_num_workers,prefill_tp_size,decode_batch_size,"
    "decode_num_workers,decode_tp_size,silicon_ttft_ms,silicon_tpot_ms\n";

inline std::optional<std::string> silicon_csv() {
  const auto path = core::testing::source_root().parent_path() / "shared/engine-data/silicon_measurements.csv";
  if (!std::filesystem::exists(path)) return std::nullopt;
  return path.string();
}

// Rows of engines with these efficiencies, for two models on two GPUs.
inline std::string made_up_csv(const engine::RooflineEfficiency& figures) {
  std::string csv{kHeader};
  for (const char* model : {"llama-3.1-8b", "qwen3-32b"}) {
    for (const char* gpu : {"h100_sxm", "h200_sxm"}) {
      for (const std::uint32_t gpus : {2U, 4U}) {
        const engine::RooflineSpec spec{.model = engine::find_model(model),
                                        .gpu = engine::find_gpu(gpu),
                                        .tensor_parallel = gpus,
                                        .precision = engine::Precision::kFp8};
        for (const std::uint32_t input : {512U, 2048U, 6000U}) {
          for (const std::uint32_t concurrency : {1U, 4U, 16U, 64U, 128U}) {
            const ServingEstimate estimate =
                aggregated_serving(engine::Roofline{spec, figures}, {input, 400, concurrency});
            csv += fmt::format("vllm,1,{},{},fp8,agg,{},400,{},{},1,1,1,1,,,,,,,{},{}\n", model, gpu, input,
                               concurrency, gpus, estimate.ttft_ms, estimate.tpot_ms);
          }
        }
      }
    }
  }
  return csv;
}

}  // namespace penstock::fidelity::testing
