// The log of a process: lines to standard error or a file, written by a thread of their own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "core/result.h"
#include "logging/line.h"
#include "logging/log.h"

namespace penstock::logging {

struct LoggerOptions {
  Format format = Format::kText;
  Level level = Level::kInfo;
  std::string file;  // lines are appended; empty: standard error
  // Lines that wait to be written. More are dropped; a line log_lines_dropped counts them once there is room.
  std::size_t lines_max = 8192;
  // Receives the error when lines of the file begin to be lost, and once more when they have been written for 10 s.
  // Called on the thread of the log.
  std::function<void(const std::string& error, bool begins)> on_outage{};
};

// A write() formats the line and hands it to the thread; it never waits for the disk or the terminal. The thread takes
// no signals.
class Logger final : public Log {
 public:
  // Errors: a file that cannot be opened.
  [[nodiscard]] static core::Result<std::unique_ptr<Logger>> open(const LoggerOptions& options);
  ~Logger() override;  // writes the lines that wait

  // Opens the file again by its name, for a rotation that has renamed it; later lines go there. After an error they go
  // to the former file. Does nothing without a file.
  [[nodiscard]] core::Result<void> reopen();

  // Lines since the start: those that came too fast, and those that the disk did not take.
  [[nodiscard]] std::uint64_t dropped() const;
  [[nodiscard]] std::uint64_t unwritten() const;

 private:
  struct State;
  explicit Logger(const LoggerOptions& options);
  void append(Event event, std::span<const Field> fields) override;

  std::unique_ptr<State> state_;
};

}  // namespace penstock::logging
