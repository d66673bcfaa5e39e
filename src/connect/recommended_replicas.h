// What other autoscalers are told of a pool.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace penstock::connect {

struct RecommendedReplicas {
  std::string pool, model;                // The model is empty if the planner serves requests of all models.
  std::optional<std::uint32_t> replicas;  // The target. Empty while it is unknown.
  std::string unknown_because;            // Set if it is.
};

// Returns all pools, always in the same order. Called often.
using Recommended = std::function<std::vector<RecommendedReplicas>()>;

}  // namespace penstock::connect
