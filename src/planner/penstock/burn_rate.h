// Burn rate of the error budget of an SLO.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <utility>
#include <vector>

#include "core/state_archive.h"
#include "core/time.h"
#include "signals/observation.h"
#include "signals/slo.h"

namespace penstock::planner {

struct BurnRateOptions {
  // A request without a first token this long after its arrival counts as late.
  core::Duration judged_after = std::chrono::seconds{30};
  core::Duration short_window = std::chrono::minutes{5};
  core::Duration long_window = std::chrono::hours{1};
  // Multiples of the miss rate that the goal allows; both windows must exceed theirs.
  double short_burns = 2.0;
  double long_burns = 1.0;
};

// Of a response that is not streamed, an objective applies only to its end. A failed request is judged, and has missed.
[[nodiscard]] bool is_judged(const signals::RecentRequest& request, const signals::SloPolicy& slo);
// Whether the request has missed its SLO as far as is known at `now`.
[[nodiscard]] bool missed(const signals::RecentRequest& request, const signals::SloPolicy& slo, core::Instant now);

// Requests, those that missed, and those that may miss: those that a fleet of any size misses, and those that the goals
// allow beside them.
struct BudgetUse {
  double requests = 0.0, missed = 0.0, allowed = 0.0, unavoidable = 0.0;
  BudgetUse& operator+=(const BudgetUse& other) {
    requests += other.requests;
    missed += other.missed;
    allowed += other.allowed;
    unavoidable += other.unavoidable;
    return *this;
  }
  [[nodiscard]] BudgetUse times(double factor) const {
    return {factor * requests, factor * missed, factor * allowed, factor * unavoidable};
  }
  void archive(core::StateArchive& state) { state.values_of(requests, missed, allowed, unavoidable); }
};

// Misses in a window relative to the misses that the goals allow: 1 uses up the budget exactly.
class BurnRate {
 public:
  BurnRate(signals::SloPolicy slo, const BurnRateOptions& options = {}) : slo_(std::move(slo)), options_(options) {}

  // Called every tick. Each request is counted once, some time after its arrival, and its miss as soon as it is known:
  // a mean ITL is known at the end only. `best` is the attainment of a fleet of any size; its misses are allowed beside
  // those of allowed_misses().
  void observe(const signals::Observation& observation, double best);
  [[nodiscard]] double over_short_window() const { return over(options_.short_window); }
  [[nodiscard]] double over_long_window() const { return over(options_.long_window); }
  // Returns true if both windows burn, so that the problem is neither momentary nor over. `misses`: the multiple of the
  // misses that goals allow which is accepted.
  [[nodiscard]] bool burning(double misses = 1.0) const;
  // All since the last call, by objective.
  [[nodiscard]] std::vector<BudgetUse> take_uses() { return std::exchange(uses_, {}); }

  void archive(core::StateArchive& state) { state("burn_rate", spans_, uses_, open_, now_, judged_to_); }

 private:
  struct Span : BudgetUse {
    core::Instant at;
    void archive(core::StateArchive& state) {
      BudgetUse::archive(state);
      state.values_of(at);
    }
  };
  // A request that was counted before it was known whether it misses.
  struct Open {
    core::Instant arrival;
    std::uint64_t number = 0;  // Among the requests that arrived at the same time.
    void archive(core::StateArchive& state) { state.values_of(arrival, number); }
  };
  [[nodiscard]] double over(core::Duration window) const;
  void count(const signals::RecentRequest& request, const BudgetUse& use);
  void count_ended(std::span<const signals::RecentRequest> recent);

  signals::SloPolicy slo_;
  BurnRateOptions options_;
  std::deque<Span> spans_;       // One entry per minute.
  std::vector<BudgetUse> uses_;  // By objective.
  std::vector<Open> open_;       // By arrival.
  core::Instant now_{}, judged_to_{};
};

}  // namespace penstock::planner
