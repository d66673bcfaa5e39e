// A replica as the dispatcher knows it: the properties that routing depends on, without its address.
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
  std::string id;  // Unique among the current replicas.
  // The caller's number of the replica, which each grant repeats. Another number under the same id is another replica.
  std::uint64_t number = 0;
  std::string model;
  std::string pool;
  signals::Role role = signals::Role::kAggregated;
  ReplicaPhase phase = ReplicaPhase::kServing;
  double weight = 1.0;
  std::uint64_t kv_tokens = 0;  // Size of its cache; 0 if it is not known.
  bool operator==(const ReplicaSpec&) const = default;
};

}  // namespace penstock::dispatch
