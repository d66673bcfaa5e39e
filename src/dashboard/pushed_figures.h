// Figures that other programs push to /ingest, by model: they measure requests, and Penstock exports the sums.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"
#include "core/time.h"
#include "telemetry/token_metrics.h"

namespace penstock::dashboard {

inline constexpr std::size_t kPushedModelsMax = 1'000;
// A queue depth, KV usage or latency of an older push is unknown.
inline constexpr core::Duration kPushedTimeMax = std::chrono::minutes{1};

class PushedFigures {
 public:
  // Takes one JSON object: modelId, and any of inputTokens, outputTokens (added to counters), ttftMs, tpotMs (one
  // observation each), kvCacheOccupancy (0 to 1) and pendingQueue. Other fields are ignored. An error names the
  // field, and nothing of that object is taken.
  [[nodiscard]] core::Result<void> add(std::string_view json, core::Instant now);
  // The label source="push" distinguishes them from what Penstock reads itself.
  [[nodiscard]] std::vector<telemetry::TokenFigures> figures(core::Instant now) const;

 private:
  struct Model {
    core::Instant at;
    std::optional<std::uint64_t> tokens_in, tokens_out, queue;
    std::optional<double> kv_usage, ttft_s, tpot_s;  // Last values.
    std::optional<telemetry::Histogram> ttft, tpot;
  };
  std::map<std::string, Model, std::less<>> models_;
};

}  // namespace penstock::dashboard
