// The log of the commands that serve: its flags, and its first and last lines.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "cli/arguments.h"
#include "logging/logger.h"

namespace penstock::cli {

void add_log_flags(Usage& usage);
[[nodiscard]] bool is_log_flag(std::string_view flag);
// The log flags as they were given, for a process that logs in the same way.
[[nodiscard]] std::vector<std::string> log_arguments(const Parsed& parsed);

// The flags' values, or the exit code after a message.
[[nodiscard]] tl::expected<logging::LoggerOptions, int> log_options(const Parsed& parsed);
[[nodiscard]] tl::expected<std::unique_ptr<logging::Logger>, int> open_log(const Parsed& parsed);

void log_start(logging::Log& log, std::string_view command);
// Returns the exit code.
int log_stop(logging::Log& log, std::string_view command, std::string_view cause, int exit_code);
[[nodiscard]] std::string signal_name(int number);  // "SIGTERM"

}  // namespace penstock::cli
