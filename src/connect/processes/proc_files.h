// What /proc says of a process.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace penstock::connect {

struct ProcStat {
  char state = '?';  // 'Z' and 'X' have ended
  std::int64_t group = 0;
  std::uint64_t started_ticks = 0;

  [[nodiscard]] bool has_ended() const { return state == 'Z' || state == 'X' || state == 'x'; }
};

// The text of /proc/PID/stat. The name of the program in it may hold blanks, brackets and newlines.
[[nodiscard]] std::optional<ProcStat> parse_stat(std::string_view text);
[[nodiscard]] std::optional<ProcStat> read_stat(std::int64_t pid);  // none: there is no such process

[[nodiscard]] std::vector<std::int64_t> process_numbers();  // of all processes, ascending
// Whether the process was started with this variable of the environment; false if it is another user's.
[[nodiscard]] bool has_variable(std::int64_t pid, std::string_view name, std::string_view value);

}  // namespace penstock::connect
