// The log of the commands that serve, with its first and last lines.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "cli/arguments.h"
#include "logging/logger.h"

namespace penstock::cli {

// Returns the flags for a process that logs in the same way.
[[nodiscard]] std::vector<std::string> log_arguments(logging::LoggerOptions options);

// Reports the error if it cannot be opened and returns the exit code.
[[nodiscard]] tl::expected<std::unique_ptr<logging::Logger>, int> open_log(const logging::LoggerOptions& options);

// After SIGHUP: a rotation may have renamed the file of the log. An error is written to `report`.
void reopen_log(logging::Logger& reopened, logging::Log& report);

void log_start(logging::Log& log, std::string_view command);
// Returns the exit code.
int log_stop(logging::Log& log, std::string_view command, std::string_view cause, int exit_code);
[[nodiscard]] std::string signal_name(int number);  // "SIGTERM"

}  // namespace penstock::cli
