// Stable names, as metrics, documents and logs print them.
#pragma once

#include "gateway/options.h"

namespace penstock::gateway {

[[nodiscard]] constexpr const char* to_string(ReplicaPhase phase) {
  switch (phase) {
    case ReplicaPhase::kWarming: return "warming";
    case ReplicaPhase::kServing: return "serving";
    case ReplicaPhase::kDraining: return "draining";
  }
  return "";
}

}  // namespace penstock::gateway
