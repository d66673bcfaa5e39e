#include "logging/logger.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <spdlog/async.h>
#include <spdlog/async_logger.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <system_error>
#include <utility>

namespace penstock::logging {
namespace {

spdlog::level::level_enum level_of(Level level) {
  switch (level) {
    case Level::kDebug: return spdlog::level::debug;
    case Level::kInfo: return spdlog::level::info;
    case Level::kWarning: return spdlog::level::warn;
    case Level::kError: return spdlog::level::err;
  }
  return spdlog::level::info;
}

// RFC 3339 in UTC with milliseconds.
std::unique_ptr<spdlog::formatter> formatter_of(Format format) {
  const char* pattern =
      format == Format::kJson ? R"({"time":"%Y-%m-%dT%H:%M:%S.%eZ","level":"%l",%v})" : "%Y-%m-%dT%H:%M:%S.%eZ %l %v";
  return std::make_unique<spdlog::pattern_formatter>(pattern, spdlog::pattern_time_type::utc, "\n");
}

struct Counters {
  std::atomic<std::size_t> waiting{0};
  std::atomic<std::uint64_t> dropped{0}, unwritten{0};
};

// Appends each line to a file with one system call. A line that the disk does not take as a whole is counted.
class FileSink final : public spdlog::sinks::base_sink<spdlog::details::null_mutex> {
 public:
  FileSink(int file, const LoggerOptions& options, Counters& counters)
      : file_(file), name_(options.file), on_outage_(options.on_outage), counters_(counters) {}
  ~FileSink() override {
    replace(-1);
    ::close(file_);
  }
  FileSink(const FileSink&) = delete;
  FileSink& operator=(const FileSink&) = delete;

  // Any thread may call it. Later lines go to that file.
  void replace(int file) {
    if (const int unused = next_file_.exchange(file); unused >= 0) ::close(unused);
  }

 private:
  static constexpr std::chrono::seconds kRecovery{10};

  void sink_it_(const spdlog::details::log_msg& message) override {
    if (const int next = next_file_.exchange(-1); next >= 0) {
      ::close(std::exchange(file_, next));
      is_cut_ = false;
    }
    spdlog::memory_buf_t formatted;
    formatter_->format(message, formatted);
    std::string line{formatted.data(), formatted.size()};
    if (is_cut_) line.insert(0, 1, '\n');
    if (write(line)) {
      if (!error_.empty() && message.time - failed_at_ >= kRecovery) report(std::exchange(error_, {}), false);
      return;
    }
    const int error = errno;
    counters_.unwritten.fetch_add(1, std::memory_order_relaxed);
    failed_at_ = message.time;
    if (!error_.empty()) return;
    error_ = name_ + ": cannot be written: " + std::generic_category().message(error);
    report(error_, true);
  }
  void flush_() override {}

  // Returns false with the error in errno.
  [[nodiscard]] bool write(std::string_view line) {
    while (!line.empty()) {
      const auto written = ::write(file_, line.data(), line.size());
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) return false;
      const auto bytes = static_cast<std::size_t>(written);
      is_cut_ = line[bytes - 1] != '\n';
      line.remove_prefix(bytes);
    }
    return true;
  }
  void report(const std::string& error, bool begins) const {
    if (on_outage_) on_outage_(error, begins);
  }

  int file_;
  std::atomic<int> next_file_{-1};
  const std::string name_;
  const std::function<void(const std::string&, bool)> on_outage_;
  Counters& counters_;
  std::string error_;  // Of the outage; empty: there is none.
  spdlog::log_clock::time_point failed_at_{};
  bool is_cut_ = false;  // The last line was written in part.
};

// On the logger's thread: passes lines on, and adds one about those that were dropped.
class CountingSink final : public spdlog::sinks::base_sink<spdlog::details::null_mutex> {
 public:
  CountingSink(spdlog::sink_ptr inner, Counters& counters, Format format)
      : inner_(std::move(inner)), counters_(counters), format_(format) {}

 private:
  void sink_it_(const spdlog::details::log_msg& message) override {
    counters_.waiting.fetch_sub(1, std::memory_order_relaxed);
    inner_->log(message);
    const std::uint64_t dropped = counters_.dropped.load(std::memory_order_relaxed);
    if (dropped == reported_) return;
    const Field field{"lines", dropped - std::exchange(reported_, dropped)};
    const std::string line = format_line(format_, Event::kLinesDropped, {&field, 1});
    inner_->log(spdlog::details::log_msg{message.logger_name, spdlog::level::warn, line});
  }
  void flush_() override { inner_->flush(); }

  spdlog::sink_ptr inner_;
  Counters& counters_;
  Format format_;
  std::uint64_t reported_ = 0;
};

// Creates the file and its folder if they are missing. A new file is readable by its owner only. Returns -1 with the
// error in errno.
int open_file(const std::string& path) {
  std::error_code ignored;  // open() reports the error.
  if (const auto folder = std::filesystem::path{path}.parent_path(); !folder.empty())
    std::filesystem::create_directories(folder, ignored);
  return ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
}

// Threads that start meanwhile take no signals, which are for the loop of the process.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_{};
};

}  // namespace

struct Logger::State {
  LoggerOptions options;
  std::shared_ptr<FileSink> file{};  // Null: standard error.
  Counters counters{};
  std::shared_ptr<spdlog::details::thread_pool> pool{};
  std::shared_ptr<spdlog::async_logger> lines{};
};

Logger::Logger(const LoggerOptions& options) : Log(options.level), state_(std::make_unique<State>()) {
  state_->options = options;
}

core::Result<std::unique_ptr<Logger>> Logger::open(const LoggerOptions& options) {
  std::unique_ptr<Logger> logger{new Logger{options}};
  State& state = *logger->state_;
  try {
    spdlog::sink_ptr inner;
    if (options.file.empty()) {
      inner = std::make_shared<spdlog::sinks::stderr_sink_st>();
    } else {
      const int file = open_file(options.file);
      if (file < 0) throw std::system_error{errno, std::generic_category()};
      state.file = std::make_shared<FileSink>(file, options, state.counters);
      inner = state.file;
    }
    inner->set_formatter(formatter_of(options.format));
    const SignalsBlocked blocked;
    state.pool = std::make_shared<spdlog::details::thread_pool>(options.lines_max + 1, 1);
    state.lines = std::make_shared<spdlog::async_logger>(
        "penstock", std::make_shared<CountingSink>(std::move(inner), state.counters, options.format), state.pool,
        spdlog::async_overflow_policy::overrun_oldest);
    state.lines->set_level(spdlog::level::trace);
    // Nothing that fails costs more than lines.
    state.lines->set_error_handler([](const std::string&) {});
  } catch (const std::exception& error) {
    return core::environment_error(options.file, std::string{"cannot be opened for the log: "} + error.what(),
                                   "name a file in a folder that exists and is writable");
  }
  return logger;
}

core::Result<void> Logger::reopen() {
  if (state_->file == nullptr) return {};
  const std::string& name = state_->options.file;
  const int file = open_file(name);
  if (file < 0)
    return core::environment_error(name,
                                   "cannot be opened again for the log: " + std::generic_category().message(errno),
                                   "lines go to the former file");
  state_->file->replace(file);
  return {};
}

// The pool's end waits until its thread has written all lines.
Logger::~Logger() { state_->pool.reset(); }

std::uint64_t Logger::dropped() const { return state_->counters.dropped.load(std::memory_order_relaxed); }
std::uint64_t Logger::unwritten() const { return state_->counters.unwritten.load(std::memory_order_relaxed); }

void Logger::append(Event event, std::span<const Field> fields) {
  State& state = *state_;
  if (state.counters.waiting.fetch_add(1, std::memory_order_relaxed) >= state.options.lines_max) {
    state.counters.waiting.fetch_sub(1, std::memory_order_relaxed);
    state.counters.dropped.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  const std::string line = format_line(state.options.format, event, fields);
  state.lines->log(level_of(info_of(event).level), spdlog::string_view_t{line.data(), line.size()});
}

}  // namespace penstock::logging
