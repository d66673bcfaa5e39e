// Published measurements of engines on GPUs, as rows of a CSV, used to calibrate and validate the roofline.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"
#include "engine/roofline.h"
#include "fidelity/closed_form.h"

namespace penstock::fidelity {

enum class ServingMode : std::uint8_t { kAggregated, kDisaggregated };

// One side of a disaggregated deployment; 0 means not stated.
struct WorkerGroup {
  std::uint32_t batch = 0, workers = 0, tensor_parallel = 0;
};

struct SiliconRow {
  std::size_t line = 0;
  std::string model;  // As written in the file.
  ServingMode mode = ServingMode::kAggregated;
  LoadTest load_test = LoadTest::kMixedLengths;
  // The model is nullptr if the catalogue does not contain it. In disaggregated rows this is one decode worker.
  engine::RooflineSpec spec;
  std::uint32_t input_tokens = 0, output_tokens = 0;
  // Requests in flight at the replica; in disaggregated rows at one decode worker.
  std::uint32_t concurrency = 0;
  WorkerGroup prefill, decode;  // Zero in aggregated rows.
  double ttft_ms = 0.0, tpot_ms = 0.0;

  [[nodiscard]] bool is_aggregated() const { return mode == ServingMode::kAggregated; }
  // Description of the operating point, equal for repeated measurements and for all releases:
  // "backend|gpu|precision|model|gpus|attention ranks|input|output|concurrency".
  [[nodiscard]] std::string key() const;
};

inline constexpr std::size_t kSiliconRowsMax = 200'000;
inline constexpr std::size_t kSiliconBytesMax = std::size_t{64} << 20;

// Columns by name, in any order: backend, backend_version (may be empty), model_path, system, precision (empty: bf16),
// mode (agg or disagg), isl, osl, batch_size, tp_size, pp_size, attention_dp_size, moe_tp_size, moe_ep_size,
// decode_batch_size, decode_num_workers, decode_tp_size, prefill_…, silicon_ttft_ms, silicon_tpot_ms; others
// are ignored. `where` names the file in errors of the form "file:line: column: …": missing columns, cells that are not
// numbers or out of range, unknown backends, GPUs, precisions or modes. A model that the catalogue does not contain is
// not an error.
//
// batch_size counts requests per attention rank: times attention_dp_size it is the concurrency that the source of the
// file states (silicon_sample.csv of aiconfigurator), in 143 of 144 rows. A replica has tp·attention_dp·pp GPUs, except
// that r² with moe_tp = moe_ep = r or tp = attention_dp = r counts as r, because the file appears to multiply two names
// of the same GPUs. This is inferred: of 229 such rows with a comparable row of r GPUs, 143 are within 3 % of its TPOT.
// Two rows of Qwen3-235B on H100, whose weights do not fit 2 GPUs, contradict it.
[[nodiscard]] core::Result<std::vector<SiliconRow>> read_silicon(std::string_view text, std::string_view where);

}  // namespace penstock::fidelity
