// The names of the traffic classes of requests, as options, headers, logs and metrics have them.
#pragma once

namespace penstock::core {

inline constexpr const char* kInteractiveClass = "interactive";
inline constexpr const char* kBatchClass = "batch";

[[nodiscard]] constexpr const char* class_name(bool is_batch) { return is_batch ? kBatchClass : kInteractiveClass; }

}  // namespace penstock::core
