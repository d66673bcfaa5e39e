// When a change of the role is faster than a start: the rules for processes and for pods.
#pragma once

#include <optional>
#include <string>

#include "core/time.h"

namespace penstock::actuation {

// Replicas of another pool can take the role of this one, without a start.
struct RoleSwitch {
  std::string partner;        // The pool whose replicas may come.
  core::Duration time{};      // From the end of the drain until the replica serves here.
  core::Duration start_up{};  // Of a new replica: what a switch has to be faster than.

  friend bool operator==(const RoleSwitch&, const RoleSwitch&) = default;
};

// A drain of this length and the switch together take less time than a start-up.
[[nodiscard]] inline bool is_in_time(core::Duration drain, const RoleSwitch& by) {
  return drain + by.time < by.start_up;
}

// The mean of recent drains, exponentially weighted; empty before the first.
inline void learn_drain_time(std::optional<core::Duration>& mean, core::Duration drain) {
  constexpr int kWeight = 4;  // Of one drain: 1/4.
  mean = mean ? *mean + (drain - *mean) / kWeight : drain;
}

}  // namespace penstock::actuation
