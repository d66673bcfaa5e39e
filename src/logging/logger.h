// The log of a process: lines to standard error or a file, written by a thread of their own.
#pragma once

#include <cstddef>
#include <cstdint>
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
};

// A write() formats the line and hands it to the thread; it never waits for the disk or the terminal. The thread takes
// no signals.
class Logger final : public Log {
 public:
  // Errors: a file that cannot be opened.
  [[nodiscard]] static core::Result<std::unique_ptr<Logger>> open(const LoggerOptions& options);
  ~Logger() override;  // writes the lines that wait

  [[nodiscard]] std::uint64_t dropped() const;  // lines, since the start

 private:
  struct State;
  explicit Logger(const LoggerOptions& options);
  void append(Event event, std::span<const Field> fields) override;

  std::unique_ptr<State> state_;
};

}  // namespace penstock::logging
