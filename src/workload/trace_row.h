// One row of a trace as every format gives it, and the seam between formats and what is made of their rows.
#pragma once

#include <cstdint>
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
  [[nodiscard]] virtual bool has_tenants() const = 0;
};

}  // namespace penstock::workload
