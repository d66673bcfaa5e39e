// Parses the command lines of all subcommands by the same rules, and generates their help.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"
#include "options/reading.h"

namespace penstock::options {

struct Flag {
  std::string group;             // Heading in the help.
  std::string name;              // For example "--start-up".
  std::string value;             // Placeholder in the help, such as "DURATION"; empty if the flag takes no value.
  std::string help;              // One line without a full stop.
  std::string fallback;          // The default, for the help.
  std::string implied = "true";  // Value of a flag that takes none.
  std::vector<std::string> former_names{};
};

struct Usage {
  std::string command;  // For example "replay".
  std::string summary;  // One or two sentences.
  std::string operand;  // For example "TRACE", or "KIND FILE" for two; empty if the command takes no operand.
  bool many_operands = false;
  std::vector<Flag> flags;
  std::string notes;  // Examples, printed after the flags.
};

struct Arguments {
  bool wants_help = false;  // --help or -h was given; the rest is not parsed.
  std::vector<std::string> operands;
  std::vector<FlagValue> flags;  // In the order in which they were given.

  [[nodiscard]] bool has(std::string_view flag) const;
  [[nodiscard]] std::string value_of(std::string_view flag, std::string fallback = {}) const;  // The last one wins.
};

// Parses `--flag value`, `--flag=value`, and `--` before operands that begin with a dash.
[[nodiscard]] core::Result<Arguments> parse_words(const Usage& usage, const std::vector<std::string>& words);
[[nodiscard]] std::string help_page(const Usage& usage);

// Returns the flags of a table, of the given groups or of all groups.
[[nodiscard]] std::vector<Flag> flags_of(const Table& table, const std::vector<std::string_view>& groups = {});
// Returns the arguments that set the same values in another process.
[[nodiscard]] std::vector<std::string> as_flags(const Table& table);

// Returns the command line for a shell, without the flags in `without`.
[[nodiscard]] std::string command_line(const Usage& usage, const Arguments& arguments,
                                       const std::vector<std::string_view>& without);

}  // namespace penstock::options
