// Whole sessions of coding agents, one JSON object per line, as in WEKA's recordings of Claude Code
// (callanjfox/kv-cache-tester).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/time.h"
#include "workload/fields.h"
#include "workload/trace_row.h"

namespace penstock::workload {

// One request of a session. Indices are those of the session's requests.
struct SessionRequest {
  core::Duration at{};  // Estimate from the start of the session, with the recorded times of answers.
  std::uint32_t input_tokens = 0, output_tokens = 0;
  bool streamed = true;
  std::vector<std::uint64_t> hash_ids;  // Local to the session.
  struct Previous {
    std::uint32_t index = 0;
    core::Duration after{};
  };
  std::vector<Previous> waits_for;
};
struct Session {
  std::string id;
  std::uint32_t block_tokens = 64;
  std::vector<SessionRequest> requests;  // Each after those that it waits for.
};

// Reads {"id", "block_size", "requests": [{"t", "type", "in", "out", "hash_ids", "think_time", "api_time"}]}. Times are
// seconds. An entry of type "subagent" has `requests` of its own, `t` at which it ended and `duration_ms`.
//
// A request follows the one before by its think time. A subagent starts after the request before it. The next request
// waits for it if it ended within the think time; of the think time then remains what the subagent did not take.
class SessionParser {
 public:
  // `think_time_max` shortens longer think times.
  explicit SessionParser(std::optional<core::Duration> think_time_max);
  ~SessionParser();
  SessionParser(const SessionParser&) = delete;
  SessionParser& operator=(const SessionParser&) = delete;

  // `line` is followed by padding, as for RowParser.
  [[nodiscard]] Parsed<Session> parse(std::string_view line);

 private:
  class Reader;
  std::unique_ptr<Reader> reader_;
};

}  // namespace penstock::workload
