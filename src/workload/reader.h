// Recorded traces: files in, a Workload out.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"
#include "core/time.h"
#include "workload/request.h"

namespace penstock::workload {

enum class Format : std::uint8_t {
  kAuto,       // told by the first line
  kMooncake,   // JSONL: timestamp (ms), input_length, output_length, hash_ids, one for each 512-token block
  kAzure2023,  // CSV: TIMESTAMP (date and time), ContextTokens, GeneratedTokens
  kAzure2024,  // the same columns with a zone in the timestamp
  kBurstGpt,   // CSV: Timestamp (s), [Session ID, Elapsed time,] Model, Request tokens, Response tokens, …
  kCsv,        // CSV: a time column, input and output tokens, optional tenant, session, prefix, class, priority
};
[[nodiscard]] std::string_view name_of(Format format);  // "auto", "mooncake", "azure2023", …
[[nodiscard]] std::span<const std::string_view> format_names();
[[nodiscard]] core::Result<Format> parse_format(std::string_view name);

struct ReadOptions {
  Format format = Format::kAuto;
  bool skip_bad_rows = false;
  core::Duration from{};               // since the trace's first arrival; requests before it are left out …
  std::optional<core::Duration> to{};  // … and those at or after this
  std::uint64_t requests_max = 50'000'000;
};

struct ReadReport {
  Format format = Format::kAuto;  // what it was
  std::uint64_t rows = 0;         // header not counted
  std::uint64_t skipped_rows = 0;
  std::vector<std::string> skipped;  // the first ten, "file:line: what is wrong"
};

// Formats, columns and what is refused are in docs/workloads.md.
//
// Reads one file, plain or compressed with gzip, xz or zstd (told by its first bytes), piece by piece: memory holds the
// requests and their block ids, never the text. Arrivals count from `from`. Reading ends at the first request past `to`.
//
// Errors are "file:line: what is wrong": a format that is not known, an empty trace or window, lengths that are not
// positive whole numbers, times that are not numbers or go back, rows with too few columns; and of the file as a whole,
// compressed data that is damaged or ends early. With skip_bad_rows bad rows are counted instead, but a damaged file
// and a trace with no good row are errors all the same.
[[nodiscard]] core::Result<Workload> read_workload(const std::string& path, const ReadOptions& options,
                                                   ReadReport* report = nullptr);
// The same from memory; `name` stands for the file in messages.
[[nodiscard]] core::Result<Workload> read_workload_bytes(std::string_view name, std::span<const std::uint8_t> bytes,
                                                         const ReadOptions& options, ReadReport* report = nullptr);

// Pairs of prompt and output length without arrivals, for empirical length distributions.
struct LengthPair {
  std::uint32_t input_tokens = 0, output_tokens = 0;
};
[[nodiscard]] core::Result<std::vector<LengthPair>> read_lengths(const std::string& path);

}  // namespace penstock::workload
