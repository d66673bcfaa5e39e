// What stands on a command line, read by one rule for every subcommand, and the help that says so.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "cli/commands.h"
#include "config/replay.h"

namespace penstock::cli {

struct Flag {
  std::string group;             // heading in the help
  std::string name;              // "--start-up"
  std::string value;             // what stands for its value in the help, "DURATION"; empty: it takes none …
  std::string help;              // one line without a full stop
  std::string fallback;          // the default, for the help; may be empty
  std::string implied = "true";  // … and says this
};

struct Usage {
  std::string command;  // "replay"
  std::string summary;  // a sentence or two
  std::string operand;  // "TRACE"; empty: takes none
  bool many_operands = false;
  std::vector<Flag> flags;
  std::string notes;  // after the flags: examples
};

struct Parsed {
  std::vector<std::string> operands;
  std::vector<config::FlagValue> flags;  // in the order they were given

  [[nodiscard]] bool has(std::string_view flag) const;
  [[nodiscard]] std::string value_of(std::string_view flag, std::string fallback = {}) const;  // the last one
};

// Understands `--flag value`, `--flag=value` and `--` before operands that begin with a dash. Where there is nothing to
// run, because help was asked for and printed or because the arguments were wrong and that was said, the error is the
// exit code.
[[nodiscard]] tl::expected<Parsed, int> parse_arguments(const Usage& usage, const Arguments& arguments);

// The flags that a replay has, from the one table of its options; of some groups only, or of all.
[[nodiscard]] std::vector<Flag> replay_flags(const std::vector<std::string_view>& groups = {});
// Leaves only those that a replay understands.
[[nodiscard]] std::vector<config::FlagValue> replay_flag_values(const Parsed& parsed);

// The command line that says the same again to a shell, without the flags named.
[[nodiscard]] std::string command_line(const Usage& usage, const Parsed& parsed,
                                       const std::vector<std::string_view>& without);

}  // namespace penstock::cli
