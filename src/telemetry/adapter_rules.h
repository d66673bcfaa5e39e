// The table that maps the series of each known server to the figures in adapters.h.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "telemetry/adapters.h"

namespace penstock::telemetry {

// The meaning of a series. If a server has two names for one figure, the second is read only if the first is missing.
enum class Figure : std::uint8_t {
  kQueued,
  kQueuedOther,  // Queued requests under another name.
  kDeferred,     // Queued requests that wait for something else than room.
  kPreempted,    // Queued requests that were preempted.
  kOpenTransfers,
  kActive,  // Sum of queued and running requests.
  kRunning,
  kMaxSequences,  // Most requests that run at once.
  kKvUsage,       // A share; several ranks are averaged.
  kKvUsageOther,
  kKvUsedTokens,
  kKvUsedBlocks,
  kKvCapacityTokens,
  kKvCapacityBlocks,
  kKvUsedBytes,
  kKvCapacityBytes,
  kBlockTokens,  // Block size; with several ranks, that of one rank.
  kPromptTokens,
  kGenerationTokens,
  kGenerationTokensOther,
  kPrefixQueries,
  kPrefixQueriesOther,
  kPrefixHits,
  kPrefixHitsOther,
  kPrefixHitBlocks,
  kPrefixMissBlocks,
  kCompleted,
  kFailed,
  kPreemptions,
  kEvictions,
  kIterations,
  kQueuedPrefillTokens,
  kInflightPrefillTokens,
  kScheduledKvTokens,
  kQueuedKvTokens,
  kOldestQueuedSeconds,
  kBatchMergeEfficiency,
  kAwake,    // Number of engines that are awake.
  kScalars,  // Number of scalars; histograms follow.
  kTtft = kScalars,
  kItl,
  kItlOther,
  kRequest,
  kQueue,
  kTpot,
  kPrefill,
  kIterationTokens,
  kPromptLength,
  kOutputLength,
  kEnd,
};

inline constexpr std::size_t kScalarFigures = static_cast<std::size_t>(Figure::kScalars);
inline constexpr std::size_t kHistogramFigures = static_cast<std::size_t>(Figure::kEnd) - kScalarFigures;

// `name` is the name of a series, or of a histogram without the suffix _bucket. If `label` is set, only series whose
// label has this value match. An empty label counts as a missing one, as in Prometheus.
struct AdapterRule {
  std::string_view name;
  Figure figure;
  std::string_view label{}, value{};
  double scale = 1.0;  // Factor that converts the bounds of a histogram to seconds.
};

// Labels of a series whose value is ignored.
struct AdapterInfo {
  std::string_view name, block_tokens, blocks;
};

struct AdapterTable {
  EngineKind kind;
  std::string_view prefix;  // Prefix of names that only this server uses.
  std::string_view model_label;
  std::span<const AdapterRule> rules;
  AdapterInfo info;
};

// Rules are tried in this order.
[[nodiscard]] std::span<const AdapterTable> adapter_tables();

}  // namespace penstock::telemetry
