// Atomic writes of reports.
#pragma once

#include <string>
#include <string_view>

#include "core/result.h"

namespace penstock::report {

// The path that means standard output.
inline constexpr std::string_view kStandardOutput = "-";

// Writes `text` to a neighbour of `path`, flushes it to the disk and renames it, so that a reader sees the old file or
// the new one, and a failure leaves the old one and nothing else. A symbolic link stays one; a file keeps its
// permissions. Other files than regular ones (/dev/stdout, a pipe) and kStandardOutput
// are written in place. Errors are of the environment
// and name the path.
[[nodiscard]] core::Result<void> write_file(const std::string& path, std::string_view text);

}  // namespace penstock::report
