// Parses the arguments of a subcommand, and handles --help and errors.
#pragma once

#include <tl/expected.hpp>

#include "cli/commands.h"
#include "options/arguments.h"

namespace penstock::cli {

using options::Flag;
using options::flags_of;
using options::Usage;
using Parsed = options::Arguments;

// The only argument of a command, or of the program, of which a shell completes the words.
inline constexpr std::string_view kComplete = "--complete";

// If help was requested, it is printed; if the arguments are invalid, the error is reported. In both cases the
// unexpected value is the exit code.
[[nodiscard]] tl::expected<Parsed, int> parse_arguments(const Usage& usage, const Arguments& arguments);

// Returns the flags and the content of the --config file. Reports a file that cannot be read and returns the exit code.
[[nodiscard]] tl::expected<options::Source, int> source_of(const Parsed& parsed);

// Reads the flags of a command without a file. Reports errors and returns the exit code in that case.
[[nodiscard]] tl::expected<options::Reading, int> read_flags(const options::Table& table, const Parsed& parsed);

}  // namespace penstock::cli
