// The memory that the system lets this process use.
#pragma once

#include <cstdint>
#include <string>

namespace penstock::net {

// Returns the smallest of the physical memory, the limits of the control group and those above it (version 2 or 1), and
// the limit of the address space less what the process has of it. `root` precedes the paths of the files, for tests.
[[nodiscard]] std::uint64_t usable_memory(const std::string& root = {});

}  // namespace penstock::net
