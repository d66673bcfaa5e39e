// Running totals of a control loop.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "core/time.h"
#include "decision/decision.h"
#include "signals/observation.h"

namespace penstock::decision {

struct DecisionCount {
  std::string pool;
  Reason reason = Reason::kFixed;
  Limit limited_by = Limit::kNone;
  std::uint64_t decisions = 0;
};

// Counts every decision of one policy, in the order of time.
class DecisionTotals {
 public:
  // `prices_per_gpu_hour` by pool; without one there is no cost.
  explicit DecisionTotals(std::vector<double> prices_per_gpu_hour = {}) : prices_(std::move(prices_per_gpu_hour)) {}

  void set_prices(std::vector<double> per_gpu_hour) { prices_ = std::move(per_gpu_hour); }

  // GPU time runs from the observation before to this one, for the replicas that this one shows: starting, ready and
  // draining ones are all paid for. A clock that steps back adds nothing.
  void count(const signals::Observation& observation, const Decision& decision);

  [[nodiscard]] core::Duration gpu_time(std::size_t pool) const;
  [[nodiscard]] std::optional<double> cost(std::size_t pool) const;
  [[nodiscard]] std::vector<DecisionCount> decisions() const;  // By pool, reason and limit.

 private:
  std::vector<double> prices_;
  std::optional<core::Instant> counted_to_;
  std::vector<std::string> names_;
  std::vector<core::Duration> gpu_time_;  // By pool.
  std::map<std::tuple<std::size_t, Reason, Limit>, std::uint64_t> decisions_;
};

}  // namespace penstock::decision
