#include "cli/log_setup.h"

#include <string.h>
#include <unistd.h>

#include <utility>

#include "cli/console.h"
#include "configuration/configuration.h"

namespace penstock::cli {
std::vector<std::string> log_arguments(logging::LoggerOptions log) {
  options::Table table;
  configuration::add_log(table, log);
  return as_flags(table);
}

tl::expected<std::unique_ptr<logging::Logger>, int> open_log(const logging::LoggerOptions& options) {
  auto log = logging::Logger::open(options);
  if (!log) return tl::make_unexpected(report_error(log.error()));
  return *std::move(log);
}

void reopen_log(logging::Logger& reopened, logging::Log& report) {
  if (const auto opened = reopened.reopen(); !opened)
    report.write(logging::Event::kLogNotReopened, {{"error", opened.error().message()}});
}

void log_start(logging::Log& log, std::string_view command) {
  log.write(logging::Event::kStart, {{"command", command}, {"version", PENSTOCK_VERSION}, {"pid", ::getpid()}});
}

int log_stop(logging::Log& log, std::string_view command, std::string_view cause, int exit_code) {
  log.write(logging::Event::kStop, {{"command", command}, {"cause", cause}, {"exit_code", exit_code}});
  return exit_code;
}

std::string signal_name(int number) {
  const char* name = ::sigabbrev_np(number);
  return name == nullptr ? std::to_string(number) : std::string{"SIG"} + name;
}

}  // namespace penstock::cli
