// Reads /proc.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace penstock::connect {

struct ProcStat {
  char state = '?';  // 'Z' and 'X' mean that the process has ended.
  std::int64_t group = 0;
  std::uint64_t started_ticks = 0;

  [[nodiscard]] bool has_ended() const { return state == 'Z' || state == 'X' || state == 'x'; }
};

// Parses the text of /proc/PID/stat. The program name in it may contain blanks, brackets and newlines.
[[nodiscard]] std::optional<ProcStat> parse_stat(std::string_view text);
[[nodiscard]] std::optional<ProcStat> read_stat(std::int64_t pid);  // Empty if there is no such process.

[[nodiscard]] std::vector<std::int64_t> process_numbers();  // All processes, in ascending order.
// Returns whether the process was started with this environment variable; false for another user's process.
[[nodiscard]] bool has_variable(std::int64_t pid, std::string_view name, std::string_view value);

}  // namespace penstock::connect
