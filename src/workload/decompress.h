// Streaming decompression of gzip, xz and zstd.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "core/result.h"
#include "workload/byte_source.h"

namespace penstock::workload {

// Memory limits: sufficient for `xz -9` (65 MiB) and `zstd --long=27` (128 MiB). Files that need more are rejected, so
// that a small file cannot exhaust the memory.
inline constexpr std::size_t kXzMemoryMax = std::size_t{160} << 20;
inline constexpr int kZstdWindowLogMax = 27;

// The first bytes of `packed` determine the format; other data passes unchanged. Files with several members or frames
// are read to their end. Reading returns an error that names `name` if the data is damaged, truncated, followed by
// other data, or exceeds the limits above. What cannot be a trace is an error that names its format: bzip2, ZIP,
// Parquet and UTF-16.
[[nodiscard]] core::Result<std::unique_ptr<ByteSource>> decompress(std::string name,
                                                                   std::unique_ptr<ByteSource> packed);

}  // namespace penstock::workload
