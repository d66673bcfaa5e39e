// Traces with one JSON object per line: Mooncake's, agentic ones, those that a gateway records, and LiteLLM's spend
// logs.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "workload/time_format.h"
#include "workload/trace_row.h"

namespace penstock::workload {

inline constexpr std::uint32_t kMooncakeBlockTokens = 512;

struct JsonFormat {
  Format format = Format::kMooncake;  // Or kAgentic, kRecorded or kLiteLlm.
  std::uint32_t block_tokens = kMooncakeBlockTokens;
};
[[nodiscard]] constexpr bool is_json_format(Format format) {
  return format == Format::kMooncake || format == Format::kAgentic || format == Format::kWeka ||
         format == Format::kRecorded || format == Format::kLiteLlm;
}

// `line` is followed by padding, as for RowParser. Objects of unknown keys are taken for Mooncake's.
[[nodiscard]] JsonFormat json_format_of(std::string_view line);

// Fields may be in any order, and unknown fields are ignored. With TimeFormat::kAuto, timestamps are milliseconds, and
// dates in spend logs.
[[nodiscard]] std::unique_ptr<RowParser> json_row_parser(const JsonFormat& format, Wanted wanted,
                                                         TimeFormat time_format);

// The number of the key "timestamp" as text; empty without one. `line` (with padding) must outlive it.
[[nodiscard]] std::string_view timestamp_of(std::string_view line);

// Returns true if `line` (followed by padding, as for RowParser) is a JSON object with a list "requests": a whole
// session with relative times, as in recordings of coding agents.
[[nodiscard]] bool is_whole_session(std::string_view line);
// Returns true if `line` (with padding) is a JSON object with a key by which rows of an agentic trace wait for others.
[[nodiscard]] bool is_agentic_row(std::string_view line);

}  // namespace penstock::workload
