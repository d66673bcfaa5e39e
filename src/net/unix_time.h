// The wall clock of the machine.
#pragma once

#include "core/time.h"

namespace penstock::net {

// Time since 1970-01-01T00:00:00Z. It jumps when the clock is set, unlike Loop::now().
[[nodiscard]] core::Duration unix_time();

}  // namespace penstock::net
