// Which series of which server says what: the table behind adapters.h.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "telemetry/adapters.h"

namespace penstock::telemetry {

// What a series is about. Where a server has two names for one thing, the second counts only without the first.
enum class Figure : std::uint8_t {
  kQueued,
  kQueuedOther,  // Triton: waiting, by another name
  kPreempted,    // of the queued ones
  kActive,       // queued and running together
  kRunning,
  kKvUsage,  // a share; of several ranks, their mean
  kKvUsageOther,
  kKvUsedTokens,
  kKvUsedBlocks,
  kKvCapacityTokens,
  kKvCapacityBlocks,
  kBlockTokens,  // of several ranks, that of one
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
  kScalars,  // how many there are; below are histograms
  kTtft = kScalars,
  kItl,
  kItlOther,
  kRequest,
  kQueue,
  kTpot,
  kPrefill,
  kIterationTokens,
  kEnd,
};

inline constexpr std::size_t kScalarFigures = static_cast<std::size_t>(Figure::kScalars);
inline constexpr std::size_t kHistogramFigures = static_cast<std::size_t>(Figure::kEnd) - kScalarFigures;

// `name` is the whole name of a series, or what comes before _bucket of a histogram. With a label, only series whose label
// has the value; an empty value: those that lack the label.
struct AdapterRule {
  std::string_view name;
  Figure figure;
  std::string_view label{}, value{};
  double scale = 1.0;  // histograms: of bounds, to seconds
};

// Labels of a series whose value means nothing.
struct AdapterInfo {
  std::string_view name, block_tokens, blocks;
};

struct AdapterTable {
  EngineKind kind;
  std::string_view prefix;  // of names that only this server has
  std::string_view model_label;
  std::span<const AdapterRule> rules;
  AdapterInfo info;
};

// In the order in which they are looked for.
[[nodiscard]] std::span<const AdapterTable> adapter_tables();

}  // namespace penstock::telemetry
