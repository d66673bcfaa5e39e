// The words of a command line, read by one rule for every subcommand, and the help that describes them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"
#include "options/reading.h"

namespace penstock::options {

struct Flag {
  std::string group;             // heading in the help
  std::string name;              // "--start-up"
  std::string value;             // what stands for its value in the help, "DURATION"; empty: the flag takes none …
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

struct Arguments {
  bool wants_help = false;  // --help or -h; the rest is not read
  std::vector<std::string> operands;
  std::vector<FlagValue> flags;  // in the order they were given

  [[nodiscard]] bool has(std::string_view flag) const;
  [[nodiscard]] std::string value_of(std::string_view flag, std::string fallback = {}) const;  // the last one
};

// Reads `--flag value`, `--flag=value`, and `--` before operands that begin with a dash.
[[nodiscard]] core::Result<Arguments> parse_words(const Usage& usage, const std::vector<std::string>& words);
[[nodiscard]] std::string help_page(const Usage& usage);

// The flags of a table, those of some groups or all.
[[nodiscard]] std::vector<Flag> flags_of(const Table& table, const std::vector<std::string_view>& groups = {});
// The flags and values that set in another process what this table is bound to.
[[nodiscard]] std::vector<std::string> as_flags(const Table& table);

// The command line that says the same again to a shell, without the flags named.
[[nodiscard]] std::string command_line(const Usage& usage, const Arguments& arguments,
                                       const std::vector<std::string_view>& without);

}  // namespace penstock::options
