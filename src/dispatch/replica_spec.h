// A replica as the dispatcher knows it: the properties that routing depends on, without its address.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

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

// kSlow: it was reached, and only its health checks time out. It serves while no replica of its group is healthy.
enum class ReplicaHealth : std::uint8_t { kHealthy, kSlow, kUnhealthy };

// A further name that a replica serves: an alias of its model, or an adapter.
struct ServedModel {
  std::string name;
  std::uint64_t key_salt = 0;        // Salts the keys of prompts, because an adapter has a KV of its own; 0: an alias.
  std::uint32_t context_tokens = 0;  // Of prompt and answer together; 0 if it is not known.
  bool operator==(const ServedModel&) const = default;
};

struct ReplicaSpec {
  std::string id;  // Unique among the current replicas.
  // The caller's number of the replica, which each grant repeats. Another number under the same id is another replica.
  std::uint64_t number = 0;
  std::string model;
  std::string pool;
  signals::Role role = signals::Role::kAggregated;
  ReplicaPhase phase = ReplicaPhase::kServing;
  double weight = 1.0;
  std::uint64_t kv_tokens = 0;       // Size of its cache; 0 if it is not known.
  std::uint32_t context_tokens = 0;  // Of prompt and answer together, for `model`; 0 if it is not known.
  std::vector<ServedModel> also{};   // Other models that it serves.
  std::uint32_t workers = 1;         // Engines behind its address; limits of one replica are multiplied by them.
  bool operator==(const ReplicaSpec&) const = default;
};

}  // namespace penstock::dispatch
