// The bytes of a trace: from a file or memory, plain or decompressed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "core/result.h"

namespace penstock::workload {

// A stream of bytes that is read once from start to end. Not thread-safe.
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  ByteSource() = default;
  ByteSource(const ByteSource&) = delete;
  ByteSource& operator=(const ByteSource&) = delete;

  // Fills the start of `buffer`, which must not be empty, and returns the number of bytes; 0 only at the end. Must not
  // be called again after the end or an error.
  [[nodiscard]] virtual core::Result<std::size_t> read(std::span<std::uint8_t> buffer) = 0;
};

// The path "-" is standard input. An environment error names the path and the system's reason.
[[nodiscard]] core::Result<std::unique_ptr<ByteSource>> open_file(const std::string& path);

// The bytes are not copied and must outlive the source.
[[nodiscard]] std::unique_ptr<ByteSource> bytes_in_memory(std::span<const std::uint8_t> bytes);

}  // namespace penstock::workload
