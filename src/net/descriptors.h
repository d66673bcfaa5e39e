// Raises the limit of file descriptors at start-up.
#pragma once

#include <cstdint>

namespace penstock::net {

// Raises the limit of open descriptors of this process as far as permitted and makes the kernel's table hold `wanted`
// of them. In a process with threads, growing the table blocks the next open() for milliseconds, so this must be called
// before other threads start. Returns the resulting limit, which is below `wanted` if the hard limit is lower.
std::uint64_t prepare_descriptors(std::uint64_t wanted);

}  // namespace penstock::net
