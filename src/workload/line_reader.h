// Splits a stream of bytes into lines, with a buffer no longer than the longest line.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"
#include "workload/byte_source.h"

namespace penstock::workload {

inline constexpr std::size_t kLineBytesMax = std::size_t{16} << 20;

class LineReader {
 public:
  // `name` identifies the source in messages.
  LineReader(std::string name, std::unique_ptr<ByteSource> source);

  // Returns the next line that is not blank, without its line end (LF or CRLF) and without a byte order mark; nothing
  // at the end. The view is valid until the next call, and kPaddingBytes after it are readable, as simdjson requires.
  // Errors are those of the source and lines longer than kLineBytesMax.
  [[nodiscard]] core::Result<std::optional<std::string_view>> next();

  static constexpr std::size_t kPaddingBytes = 64;

  [[nodiscard]] std::uint64_t line() const { return line_; }  // Number of the last returned line, from 1.
  [[nodiscard]] std::string place() const;                    // For example "trace.csv:17".
  [[nodiscard]] const std::string& name() const { return name_; }

 private:
  [[nodiscard]] core::Result<std::optional<std::string_view>> next_raw();
  [[nodiscard]] core::Result<void> fill();

  std::string name_;
  std::unique_ptr<ByteSource> source_;
  std::vector<char> buffer_;  // [begin_, end_) was read and not returned yet.
  std::size_t begin_ = 0, end_ = 0;
  std::uint64_t line_ = 0;
  bool ended_ = false;
};

}  // namespace penstock::workload
