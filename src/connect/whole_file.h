// Small files that others read while we write them: whole or not at all.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/result.h"

namespace penstock::connect {

// None: there is no such file. One that is longer than `bytes_max` is an error.
[[nodiscard]] core::Result<std::optional<std::string>> read_whole_file(const std::string& path,
                                                                       std::uint64_t bytes_max);

// Writes a neighbour, flushes it to the disk and renames it, so that a reader, and whoever comes after a crash, has the old
// text or the new. One writer at a time. The file is readable by all, as far as the umask allows.
[[nodiscard]] core::Result<void> replace_file(const std::string& path, std::string_view text);

}  // namespace penstock::connect
