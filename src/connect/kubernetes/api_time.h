// Times as the API of Kubernetes writes them.
#pragma once

#include <cstdint>
#include <string>

namespace penstock::connect {

// RFC 3339 in UTC with microseconds, which Leases and Events demand: 2026-11-22T13:26:21.000001Z
[[nodiscard]] std::string api_time_text(std::int64_t unix_us);
[[nodiscard]] std::string api_time_now();

}  // namespace penstock::connect
