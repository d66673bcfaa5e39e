// A JSON array of objects as lines, so that it is read like one object per line.
#pragma once

#include <memory>
#include <string>

#include "workload/byte_source.h"

namespace penstock::workload {

// Passes bytes on unless they begin with `[`. The elements of an array come one per line, without the brackets and
// commas between them, and keep the numbers of the lines on which they begin if they begin on different lines.
// An array without its end is an input error.
[[nodiscard]] std::unique_ptr<ByteSource> json_array_lines(std::string name, std::unique_ptr<ByteSource> source);

}  // namespace penstock::workload
