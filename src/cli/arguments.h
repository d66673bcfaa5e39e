// The arguments of a subcommand: parsed, or answered with help or an error.
#pragma once

#include <tl/expected.hpp>

#include "cli/commands.h"
#include "options/arguments.h"

namespace penstock::cli {

using options::Flag;
using options::flags_of;
using options::Usage;
using Parsed = options::Arguments;

// Where there is nothing to run, because help was requested and printed or because the arguments were wrong and that
// was reported, the error is the exit code.
[[nodiscard]] tl::expected<Parsed, int> parse_arguments(const Usage& usage, const Arguments& arguments);

// The flags, and the file that --config names. Reports a file that cannot be read; the error is the exit code.
[[nodiscard]] tl::expected<options::Source, int> source_of(const Parsed& parsed);

// Sets what the table is bound to, for commands without a file; reports what is wrong.
[[nodiscard]] tl::expected<options::Reading, int> read_flags(const options::Table& table, const Parsed& parsed);

}  // namespace penstock::cli
