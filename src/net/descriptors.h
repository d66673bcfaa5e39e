// Room for file descriptors, made before there is anything to serve.
#pragma once

#include <cstdint>

namespace penstock::net {

// Raises this process's limit of open descriptors as far as it may and has the kernel's table hold `wanted` of them at once. In a
// process with threads the table's growth stops whoever opens the next descriptor for some milliseconds, so call this
// before others are started. Returns how many may be open: fewer than wanted where the hard limit is lower.
std::uint64_t prepare_descriptors(std::uint64_t wanted);

}  // namespace penstock::net
