// The file that traffic is recorded in: whole lines, and one older file once it is full.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/result.h"

namespace penstock::gateway {

// One thread at a time may use it; several processes may append to one file. Errors name the file and the reason.
class TraceFile {
 public:
  // Appends to a file that a recorder wrote, without an incomplete last line, or creates it, readable by its owner
  // only. Another file is an input error. A file that would exceed `bytes_max` becomes `<path>.1` and replaces the one
  // of that name.
  [[nodiscard]] static core::Result<TraceFile> open(std::string path, std::uint64_t bytes_max);
  ~TraceFile() { close(); }
  TraceFile(TraceFile&& other) noexcept;
  TraceFile& operator=(TraceFile&&) = delete;

  // Appends all or, after an error, nothing. The file is opened again if it was removed or renamed.
  [[nodiscard]] core::Result<void> append(std::string_view lines);

 private:
  TraceFile(std::string path, std::uint64_t bytes_max) : path_(std::move(path)), bytes_max_(bytes_max) {}
  [[nodiscard]] core::Result<void> reopen();
  [[nodiscard]] core::Result<void> cut_incomplete_line() const;
  [[nodiscard]] core::Result<std::uint64_t> size() const;
  [[nodiscard]] bool is_at_path() const;
  [[nodiscard]] core::Error error(std::string_view what) const;  // With the reason in errno.
  void close();

  std::string path_;
  std::uint64_t bytes_max_;
  int file_ = -1;
};

}  // namespace penstock::gateway
