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
#include "decision/token_count.h"
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

  // Of the GPU time from the last count on.
  void set_prices(std::vector<double> per_gpu_hour) { prices_ = std::move(per_gpu_hour); }

  // GPU time runs from the observation before to this one, for the replicas that this one shows: starting, ready,
  // draining and stuck ones are all paid for, and replicas asleep at the sleep price of their pool. A clock that steps
  // back adds nothing.
  void count(const signals::Observation& observation, const Decision& decision);

  [[nodiscard]] core::Duration gpu_time(std::size_t pool) const;
  [[nodiscard]] std::optional<double> cost(std::size_t pool) const;
  // The cost of all pools, divided between prompts and output by input_time_share(); neither part ever falls. Time for
  // which the share is unknown is divided by the share before it, or else by the first one that follows. Empty without
  // a price, or if a pool that was paid for never had a share.
  [[nodiscard]] std::optional<TokenCost> token_cost() const;
  [[nodiscard]] std::vector<DecisionCount> decisions() const;  // By pool, reason and limit.

 private:
  std::vector<double> prices_;
  std::optional<core::Instant> counted_to_;
  std::vector<std::string> names_;
  struct PoolTotals {
    core::Duration gpu_time{};
    double cost = 0.0, undivided_cost = 0.0;  // The latter waits for the first share.
    std::optional<double> input_share{};      // The last known one.
  };
  std::vector<PoolTotals> pools_;
  TokenCost token_cost_;  // Without undivided costs.
  std::map<std::tuple<std::size_t, Reason, Limit>, std::uint64_t> decisions_;
};

}  // namespace penstock::decision
