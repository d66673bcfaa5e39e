// Reads recorded traces from files.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"
#include "core/time.h"
#include "workload/columns.h"
#include "workload/request.h"
#include "workload/time_format.h"

namespace penstock::workload {

enum class Format : std::uint8_t {
  kAuto,       // Detected from the first line.
  kMooncake,   // JSONL: timestamp (ms), input_length, output_length, hash_ids, one per 512-token block.
  kAzure2023,  // CSV: TIMESTAMP (date and time), ContextTokens, GeneratedTokens.
  kAzure2024,  // The same columns with a zone in the timestamp.
  kBurstGpt,   // CSV: Timestamp (s), [Session ID, Elapsed time,] Model, Request tokens, Response tokens, ….
  kCsv,        // CSV: a time column, input and output tokens, optional tenant, session, prefix, class, priority.
  kLedger,     // The ledger of a gateway, an SQLite database.
  kRecorded,   // JSONL that a gateway records: as Mooncake's, with model, tenant, class and block_tokens.
  kAgentic,  // JSONL as Mooncake's, whose rows wait for others: session_id, delay, request_id, wait_for, tool_wait_ms.
  kWeka,     // JSONL of whole sessions of coding agents, as WEKA publishes those of Claude Code.
  kLiteLlm,  // Spend logs of LiteLLM, JSON or CSV: startTime, prompt_tokens, completion_tokens, model, team_id, ….
};
[[nodiscard]] std::string_view name_of(Format format);  // Returns "auto", "mooncake", "azure2023", ….
[[nodiscard]] std::span<const std::string_view> format_names();
[[nodiscard]] core::Result<Format> parse_format(std::string_view name);

inline constexpr std::string_view kAllModels = "all";

struct ReadOptions {
  Format format = Format::kAuto;
  ColumnMapping columns{};  // Of a table whose columns have other names than the usual ones.
  TimeFormat time_format = TimeFormat::kAuto;
  std::string model{};  // Only requests of this model, or kAllModels; empty: the trace must have one model.
  bool skip_bad_rows = false;
  // Of whole sessions, whose starts are not recorded: sessions per second of a Poisson process, and the longest time
  // between the end of an answer and the next request.
  double session_rate = 0.0;
  std::optional<core::Duration> think_time_max{};
  std::uint64_t seed = 1;
  core::Duration from{};               // Relative to the trace's first arrival; earlier requests are skipped.
  std::optional<core::Duration> to{};  // Requests at or after this time are skipped.
  std::uint64_t requests_max = 50'000'000;
};

struct ReadReport {
  Format format = Format::kAuto;     // The detected format.
  std::uint64_t rows = 0;            // Excludes the header.
  std::uint64_t skipped_rows = 0;    // Invalid ones, and valid ones that are no requests.
  std::vector<std::string> skipped;  // The first ten, as "file:line: what is wrong".
};

// docs/workloads.md lists formats, columns and validation.
//
// Reads one file, plain or compressed with gzip, xz or zstd (detected from its first bytes), as a stream: only the
// requests and their block ids are in memory. Arrivals are relative to `from`. Reading ends at the first request at or
// after `to`.
//
// Errors have the form "file:line: what is wrong": unknown format, unknown columns, times whose format is in doubt (the
// hint has the guess and the flag that confirms it), empty trace or window, lengths that are not positive
// whole numbers, times that are not numbers or decrease, rows with too few columns, and damaged or truncated compressed
// data. With skip_bad_rows invalid rows are counted instead, but a damaged file and a trace without a valid row remain
// errors.
[[nodiscard]] core::Result<Workload> read_workload(const std::string& path, const ReadOptions& options,
                                                   ReadReport* report = nullptr);
// Reads from memory; `name` identifies the file in messages.
[[nodiscard]] core::Result<Workload> read_workload_bytes(std::string_view name, std::span<const std::uint8_t> bytes,
                                                         const ReadOptions& options, ReadReport* report = nullptr);

// Fails if a rate of sessions or a think time is given and no trace has whole sessions, on which alone they act.
[[nodiscard]] core::Result<void> check_session_options(const ReadOptions& options, bool has_whole_sessions);

// Pairs of prompt and output length without arrivals, for empirical length distributions.
struct LengthPair {
  std::uint32_t input_tokens = 0, output_tokens = 0;
};
[[nodiscard]] core::Result<std::vector<LengthPair>> read_lengths(const std::string& path);

}  // namespace penstock::workload
