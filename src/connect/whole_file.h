// Small files that other processes read while we write them; they are replaced atomically.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/result.h"

namespace penstock::connect {

// Returns nothing if the file does not exist. A file longer than `bytes_max` is an error.
[[nodiscard]] core::Result<std::optional<std::string>> read_whole_file(const std::string& path,
                                                                       std::uint64_t bytes_max);

enum class FileReaders : std::uint8_t { kOwner, kAll };  // Who may read a file, as far as the umask allows.

// Writes a temporary file, flushes it and renames it, so that a reader sees either the old or the new text, also after
// a crash. One writer at a time.
[[nodiscard]] core::Result<void> replace_file(const std::string& path, std::string_view text,
                                              FileReaders readers = FileReaders::kOwner);

}  // namespace penstock::connect
