#include "controller/shared_targets.h"

#include <nlohmann/json.hpp>

namespace penstock::controller {

std::string format_targets(const std::vector<connect::RecommendedReplicas>& pools) {
  nlohmann::json made = nlohmann::json::object();
  for (const connect::RecommendedReplicas& pool : pools)
    if (pool.replicas) made[pool.pool] = *pool.replicas;
  return made.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::map<std::string, std::uint32_t> parse_targets(std::string_view text) {
  std::map<std::string, std::uint32_t> targets;
  const nlohmann::json read = nlohmann::json::parse(text, nullptr, false);
  if (!read.is_object()) return targets;
  for (const auto& [pool, replicas] : read.items())
    if (replicas.is_number_unsigned() && replicas.get<std::uint64_t>() <= INT32_MAX)
      targets.emplace(pool, replicas.get<std::uint32_t>());
  return targets;
}

}  // namespace penstock::controller
