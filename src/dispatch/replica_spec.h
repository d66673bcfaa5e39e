// A replica as the dispatcher knows it: what decides whether a request goes there, and nothing of how it is reached.
#pragma once

#include <cstdint>
#include <string>

#include "signals/observation.h"

namespace penstock::dispatch {

enum class ReplicaPhase : std::uint8_t { kWarming, kServing, kDraining };

[[nodiscard]] constexpr const char* to_string(ReplicaPhase phase) {
  switch (phase) {
    case ReplicaPhase::kWarming: return "warming";
    case ReplicaPhase::kServing: return "serving";
    case ReplicaPhase::kDraining: return "draining";
  }
  return "";
}

struct ReplicaSpec {
  std::string id;  // unique among the replicas there are
  // The caller's number of the replica, which each grant repeats. Another number under the same id is another replica.
  std::uint64_t number = 0;
  std::string model;
  std::string pool;
  signals::Role role = signals::Role::kAggregated;
  ReplicaPhase phase = ReplicaPhase::kServing;
  double weight = 1.0;
  std::uint64_t kv_tokens = 0;  // size of its cache; 0: not known
  bool operator==(const ReplicaSpec&) const = default;
};

}  // namespace penstock::dispatch
