// Where a trace's bytes come from: a file or memory, plain or unpacked on the way.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "core/result.h"

namespace penstock::workload {

// A stream of bytes that is read once, front to back. Not for several threads.
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  ByteSource() = default;
  ByteSource(const ByteSource&) = delete;
  ByteSource& operator=(const ByteSource&) = delete;

  // Fills the front of `buffer` (not empty) and returns how many bytes that were; 0 only at the end. After an error or
  // the end it must not be called again.
  [[nodiscard]] virtual core::Result<std::size_t> read(std::span<std::uint8_t> buffer) = 0;
};

// An environment error names the path and the system's reason.
[[nodiscard]] core::Result<std::unique_ptr<ByteSource>> open_file(const std::string& path);

// The bytes are not copied and must outlive the source.
[[nodiscard]] std::unique_ptr<ByteSource> bytes_in_memory(std::span<const std::uint8_t> bytes);

}  // namespace penstock::workload
