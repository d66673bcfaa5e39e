// One row of a trace in a common form, and the interface between formats and the trace builder.
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

// The views refer to the line or the parser and are valid until the next row.
struct TraceRow {
  core::Duration time{};       // Relative to the trace's zero.
  std::string_view time_text;  // As written in the trace.
  std::uint32_t input_tokens = 0, output_tokens = 0;
  std::string_view tenant, session, prefix_group;  // Empty means none.
  std::string_view model;                          // Empty if the trace does not name models.
  std::uint32_t prefix_tokens = 0;                 // At most input_tokens; 0 without a group.
  std::vector<std::uint64_t> hash_ids;             // One per block, from the first.
  TrafficClass traffic_class = TrafficClass::kInteractive;
  std::int8_t priority = 0;
  bool streamed = true;
  std::uint32_t reserved_tokens = 0;  // 0: unknown.
  std::string_view request_id;        // Of traces whose requests wait for each other.
  struct WaitFor {
    std::string_view id;  // Of an earlier row.
    core::Duration after{};
  };
  std::vector<WaitFor> wait_for;
  core::Duration delay{};        // From the end of what the row waits for, in addition to `after`.
  bool follows_session = false;  // It waits for the previous row of its session.
  bool has_time = true;          // False: it arrives after what it waits for.
  std::string fault;             // Why the row cannot be replayed; empty if it can.
  bool is_request = true;  // False: the row is as it should be, but no request, and is left out with `fault` as reason.
};

inline constexpr core::Duration kDelayMax = std::chrono::hours{24 * 365};
inline constexpr std::size_t kNameBytesMax = 256;  // Limit for a tenant, a session or a prefix group.

// Fields that every format reads alike. Blank text gives the default: priority 0, the interactive class, no name, a
// streamed answer.
[[nodiscard]] Parsed<std::int8_t> parse_priority(std::string_view column, std::string_view text);
[[nodiscard]] Parsed<TrafficClass> parse_traffic_class(std::string_view column, std::string_view text);
[[nodiscard]] Parsed<bool> parse_streamed(std::string_view column, std::string_view text);
[[nodiscard]] Parsed<std::string_view> parse_name(std::string_view column, std::string_view text);
// Returns `name` in lower case, with `_` for spaces and dashes.
[[nodiscard]] std::string normalized(std::string_view name);

// Required fields of a row: arrivals are not required if only lengths are read.
enum class Wanted : std::uint8_t { kRequests, kLengths };

class RowParser {
 public:
  virtual ~RowParser() = default;
  RowParser() = default;
  RowParser(const RowParser&) = delete;
  RowParser& operator=(const RowParser&) = delete;

  // `line` must be followed by LineReader::kPaddingBytes readable bytes. Overwrites all of `row`.
  [[nodiscard]] virtual Parsed<void> parse(std::string_view line, TraceRow& row) = 0;
  [[nodiscard]] virtual Format format() const = 0;  // Final after the first valid row.
  [[nodiscard]] virtual std::uint32_t block_tokens() const = 0;
  [[nodiscard]] virtual bool is_sorted() const { return true; }  // See RowSource.
};

}  // namespace penstock::workload
