#include "cli/log_setup.h"

#include <string.h>
#include <unistd.h>

#include <utility>

#include "cli/console.h"
#include "config/scalars.h"

namespace penstock::cli {
namespace {

constexpr std::string_view kFormatFlag = "--log-format", kLevelFlag = "--log-level";

}  // namespace

void add_log_flags(Usage& usage) {
  usage.flags.push_back(
      {"Log", std::string{kFormatFlag}, "FORMAT", "text or json: lines on standard error", "text", "true"});
  usage.flags.push_back(
      {"Log", std::string{kLevelFlag}, "LEVEL", "least level: debug, info, warning or error", "info", "true"});
}

bool is_log_flag(std::string_view flag) { return flag == kFormatFlag || flag == kLevelFlag; }

std::vector<std::string> log_arguments(const Parsed& parsed) {
  std::vector<std::string> arguments;
  for (const std::string_view flag : {kFormatFlag, kLevelFlag})
    if (parsed.has(flag)) arguments.insert(arguments.end(), {std::string{flag}, parsed.value_of(flag)});
  return arguments;
}

tl::expected<logging::LoggerOptions, int> log_options(const Parsed& parsed) {
  logging::LoggerOptions options;
  const std::string format = parsed.value_of(kFormatFlag, "text");
  if (format != "text" && format != "json")
    return tl::make_unexpected(complain({core::ErrorCode::kInvalidInput,
                                         std::string{kFormatFlag},
                                         "must be text or json, is " + config::quoted(format),
                                         {}}));
  options.format = format == "json" ? logging::Format::kJson : logging::Format::kText;
  const std::string name = parsed.value_of(kLevelFlag, "info");
  for (const logging::Level level :
       {logging::Level::kDebug, logging::Level::kInfo, logging::Level::kWarning, logging::Level::kError}) {
    if (name != logging::to_string(level)) continue;
    options.level = level;
    return options;
  }
  return tl::make_unexpected(complain({core::ErrorCode::kInvalidInput,
                                       std::string{kLevelFlag},
                                       "must be debug, info, warning or error, is " + config::quoted(name),
                                       {}}));
}

tl::expected<std::unique_ptr<logging::Logger>, int> open_log(const Parsed& parsed) {
  const auto options = log_options(parsed);
  if (!options) return tl::make_unexpected(options.error());
  auto log = logging::Logger::open(*options);
  if (!log) return tl::make_unexpected(complain(log.error()));
  return *std::move(log);
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
