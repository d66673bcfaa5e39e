// Published measurements of real engines on real GPUs, as rows of a CSV: what the roofline is calibrated and judged by.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"
#include "engine/roofline.h"

namespace penstock::fidelity {

enum class ServingMode : std::uint8_t { kAggregated, kDisaggregated };

// One side of a disaggregated deployment, as stated; 0: not stated.
struct WorkerGroup {
  std::uint32_t batch = 0, workers = 0, tensor_parallel = 0;
};

struct SiliconRow {
  std::size_t line = 0;
  std::string model;  // as the file says
  ServingMode mode = ServingMode::kAggregated;
  engine::RooflineSpec spec;  // model is nullptr when the catalogue lacks it; in disaggregated rows one decode worker
  std::uint32_t input_tokens = 0, output_tokens = 0;
  std::uint32_t concurrency = 0;  // requests in flight at the replica; of one decode worker in disaggregated rows
  WorkerGroup prefill, decode;    // zero in aggregated rows
  double ttft_ms = 0.0, tpot_ms = 0.0;

  [[nodiscard]] bool is_aggregated() const { return mode == ServingMode::kAggregated; }
  // The operating point in words, the same for repeated measurements:
  // "backend|gpu|precision|model|gpus|attention ranks|input|output|concurrency".
  [[nodiscard]] std::string key() const;
};

inline constexpr std::size_t kSiliconRowsMax = 200'000;
inline constexpr std::size_t kSiliconBytesMax = std::size_t{64} << 20;

// Columns by name, in any order: backend, model_path, system, precision (empty: bf16), mode (agg or disagg), isl, osl,
// batch_size, tp_size, pp_size, attention_dp_size, moe_tp_size, moe_ep_size, decode_batch_size, decode_num_workers,
// decode_tp_size, prefill_…, silicon_ttft_ms, silicon_tpot_ms; others are ignored. `where` names the file in errors,
// which are "file:line: column: …": a missing column, a cell that is no number or out of range, an unknown backend,
// GPU, precision or mode. A model that the catalogue lacks is no error.
//
// batch_size counts requests per attention rank. A replica has tp·attention_dp·pp GPUs, but where that is r² with
// moe_tp = moe_ep = r or tp = attention_dp = r it is taken as r: the file seems to have multiplied two names of the
// same GPUs. That is inferred, not stated: of 229 such rows that have a row of r GPUs and as many requests in flight
// beside them, 143 are within 3 % of its TPOT. Two rows of Qwen3-235B on H100 contradict it, whose weights do not fit 2 GPUs.
[[nodiscard]] core::Result<std::vector<SiliconRow>> read_silicon(std::string_view text, std::string_view where);

}  // namespace penstock::fidelity
