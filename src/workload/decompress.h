// Unpacks gzip, xz and zstd on the way through.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "core/result.h"
#include "workload/byte_source.h"

namespace penstock::workload {

// What an unpacker may hold: enough for `xz -9` (65 MiB) and for `zstd --long=27` (128 MiB). Files that ask for more
// are refused, so that a few bytes cannot take the machine's memory.
inline constexpr std::size_t kXzMemoryMax = std::size_t{160} << 20;
inline constexpr int kZstdWindowLogMax = 27;

// The packing is told by the first bytes of `packed`; anything else passes as it is. Files of several members or frames
// are read to their end. Reading gives an error that names `name` when the data is damaged, ends early, goes on with
// something else, or needs more memory than the limits above.
[[nodiscard]] core::Result<std::unique_ptr<ByteSource>> decompress(std::string name,
                                                                   std::unique_ptr<ByteSource> packed);

}  // namespace penstock::workload
