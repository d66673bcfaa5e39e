// One row of a trace as every format gives it, and the seam between formats and what is made of their rows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/time.h"
#include "workload/fields.h"
#include "workload/reader.h"
#include "workload/request.h"

namespace penstock::workload {

// Views point into the line or into the parser and last until the next row.
struct TraceRow {
  core::Duration time{};       // since the trace's own zero
  std::string_view time_text;  // as the trace writes it
  std::uint32_t input_tokens = 0, output_tokens = 0;
  std::string_view tenant, session, prefix_group;  // empty: none
  std::uint32_t prefix_tokens = 0;                 // at most input_tokens; 0 without a group
  std::vector<std::uint64_t> hash_ids;             // one for each block, from the first
  TrafficClass traffic_class = TrafficClass::kInteractive;
  std::int8_t priority = 0;
};

inline constexpr std::size_t kNameBytesMax = 256;  // of a tenant, a session or a prefix group

// Fields that every format reads alike. Blank text gives the default: priority 0, the interactive class, no name.
[[nodiscard]] Parsed<std::int8_t> parse_priority(std::string_view column, std::string_view text);
[[nodiscard]] Parsed<TrafficClass> parse_traffic_class(std::string_view column, std::string_view text);
[[nodiscard]] Parsed<std::string_view> parse_name(std::string_view column, std::string_view text);
// Returns `name` in lower case, with `_` for spaces and dashes.
[[nodiscard]] std::string normalized(std::string_view name);

// What a row must hold: arrivals are not asked for where only lengths are wanted.
enum class Wanted : std::uint8_t { kRequests, kLengths };

class RowParser {
 public:
  virtual ~RowParser() = default;
  RowParser() = default;
  RowParser(const RowParser&) = delete;
  RowParser& operator=(const RowParser&) = delete;

  // `line` must be followed by LineReader::kPaddingBytes that may be read. Overwrites all of `row`.
  [[nodiscard]] virtual Parsed<void> parse(std::string_view line, TraceRow& row) = 0;
  [[nodiscard]] virtual Format format() const = 0;  // certain after the first good row
  [[nodiscard]] virtual std::uint32_t block_tokens() const = 0;
};

}  // namespace penstock::workload
