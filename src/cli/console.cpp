#include "cli/console.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "cli/arguments.h"
#include "cli/commands.h"
#include "report/format.h"
#include "report/write_file.h"

namespace penstock::cli {
namespace {

constexpr const char kEraseLine[] = "\r\033[K";

// Calls only functions that are safe in a signal handler.
void end(int signal) {
  if (::isatty(STDERR_FILENO) == 1) {
    // An error cannot be reported, since the terminal is gone.
    [[maybe_unused]] const auto written = ::write(STDERR_FILENO, kEraseLine, sizeof kEraseLine - 1);
  }
  ::_exit(128 + signal);
}

sigset_t interrupts() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  return set;
}

// A line for each flag, for the completion of shells: flag, placeholder of its value or "-", and help, with tabs
// between them.
std::string completion_lines(const Usage& usage) {
  std::string lines;
  for (const Flag& flag : usage.flags)
    lines += fmt::format("{}\t{}\t{}\n", flag.name, flag.value.empty() ? "-" : flag.value, flag.help);
  return lines;
}

}  // namespace

tl::expected<Parsed, int> parse_arguments(const Usage& usage, const Arguments& arguments) {
  if (arguments.size() == 1 && arguments.front() == kComplete)
    return tl::make_unexpected(print(completion_lines(usage)));
  auto parsed = options::parse_words(usage, arguments);
  if (!parsed) return tl::make_unexpected(report_error(parsed.error()));
  if (parsed->wants_help) return tl::make_unexpected(print(options::help_page(usage)));
  return *std::move(parsed);
}

tl::expected<options::Source, int> source_of(const Parsed& parsed) {
  options::Source source{parsed.value_of("--config"), {}, parsed.flags};
  if (source.file.empty()) return source;
  auto text = options::read_text_file(source.file, options::YamlLimits{}.bytes_max);
  if (!text) return tl::make_unexpected(report_input_error(text.error()));
  source.yaml = *std::move(text);
  return source;
}

tl::expected<options::Reading, int> read_flags(const options::Table& table, const Parsed& parsed) {
  options::Reading reading = options::read(table, {{}, {}, parsed.flags});
  if (!reading.good()) return tl::make_unexpected(report_error(reading.problems()));
  return reading;
}

int print(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0) return kGood;
  return report_error(
      {core::ErrorCode::kEnvironment, "standard output", fmt::format("cannot write: {}", std::strerror(errno)), {}});
}

void print_error_text(std::string_view text) { std::fwrite(text.data(), 1, text.size(), stderr); }

void print_warnings(std::span<const std::string> warnings) {
  for (const std::string& warning : warnings)
    print_error_text("penstock: warning: " + report::printable(warning) + "\n");
}

int print_page(std::string_view text, std::initializer_list<std::string_view> outputs) {
  if (std::find(outputs.begin(), outputs.end(), report::kStandardOutput) == outputs.end()) return print(text);
  print_error_text(text);
  return kGood;
}

int report_error(const core::Error& error) {
  print_error_text("penstock: " + report::printable(error.message()) + "\n");
  return error.code == core::ErrorCode::kInvalidInput ? kBadInput : kEnvironment;
}

int report_error(std::span<const core::Error> errors) {
  int code = kGood;
  for (const core::Error& error : errors) code = std::max(code, report_error(error));
  return code;
}

int report_failure(const core::Result<void>& done) { return done ? kGood : report_error(done.error()); }

int report_input_error(core::Error error) {
  error.code = core::ErrorCode::kInvalidInput;
  return report_error(error);
}

bool stdout_has_colour() {
  const char* no_colour = std::getenv("NO_COLOR");
  return ::isatty(STDOUT_FILENO) == 1 && (no_colour == nullptr || *no_colour == '\0');
}

bool stderr_is_terminal() { return ::isatty(STDERR_FILENO) == 1; }

std::optional<std::size_t> terminal_width() {
  winsize size{};
  if (::isatty(STDOUT_FILENO) != 1 || ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0)
    return std::nullopt;
  return size.ws_col;
}

void end_on_interrupt() {
  struct sigaction action {};
  action.sa_handler = end;
  sigemptyset(&action.sa_mask);
  for (const int signal : {SIGINT, SIGTERM}) {
    // A parent process that ignores interrupts, such as nohup, wants them to stay ignored.
    struct sigaction before {};
    if (::sigaction(signal, nullptr, &before) == 0 && before.sa_handler == SIG_IGN) continue;
    ::sigaction(signal, &action, nullptr);
  }
}

void hold_standard_descriptors() {
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(descriptor, F_GETFD) >= 0 || errno != EBADF) continue;
    // The lowest free number is this one. Reading from it, or writing to it, still fails.
    if (::open("/dev/null", descriptor == STDIN_FILENO ? O_WRONLY : O_RDONLY) != descriptor) return;
  }
}

InterruptLater::InterruptLater() {
  const sigset_t set = interrupts();
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

InterruptLater::~InterruptLater() {
  const sigset_t set = interrupts();
  ::pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
}

}  // namespace penstock::cli
