#include "planner/global/over_time.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "planner/global/budget_shares.h"

namespace penstock::planner::global {
namespace {

constexpr double kSecondsPerMinute = 60.0;
constexpr double kMinutesPerHour = 60.0;

std::size_t pools_of(const Deployment& deployment) {
  std::size_t pools = 0;
  for (const Offer& offer : deployment.offers) pools += offer.pools.size();
  return pools;
}

std::optional<core::Error> check_series(const std::vector<ChangingDeployment>& deployments,
                                        const OverTimeOptions& options) {
  if (options.minutes_each == 0) return core::invalid_input("options.minutes_each", "must be at least 1").value();
  for (const ChangingDeployment& each : deployments) {
    const std::size_t minutes = each.rps_by_minute.size();
    if (minutes != deployments.front().rps_by_minute.size())
      return core::invalid_input(each.deployment.name, "must have as many minutes as the other deployments").value();
    if (minutes < 2 * options.minutes_each)
      return core::invalid_input(each.deployment.name, fmt::format("must last two intervals ({} minutes), has {}",
                                                                   2 * options.minutes_each, minutes))
          .value();
    if (each.start_up.size() != pools_of(each.deployment))
      return core::invalid_input(each.deployment.name, fmt::format("has {} start-up times for {} pools",
                                                                   each.start_up.size(), pools_of(each.deployment)))
          .value();
  }
  return std::nullopt;
}

double peak(const std::vector<double>& rps_by_minute, std::size_t from, std::size_t to) {
  return *std::max_element(rps_by_minute.begin() + static_cast<std::ptrdiff_t>(from),
                           rps_by_minute.begin() + static_cast<std::ptrdiff_t>(to));
}

// Replicas of one pool: those paid for, and those of them that are still starting.
class Running {
 public:
  void place(std::uint32_t replicas) { ordered_ = replicas; }

  void order(std::uint32_t replicas, std::size_t ready_minute) {
    if (replicas > ordered_) starting_.push_back({ready_minute, replicas - ordered_});
    for (std::uint32_t less = ordered_ > replicas ? ordered_ - replicas : 0; less > 0 && !starting_.empty();) {
      const std::uint32_t taken = std::min(less, starting_.back().replicas);
      less -= taken;
      starting_.back().replicas -= taken;
      if (starting_.back().replicas == 0) starting_.pop_back();
    }
    ordered_ = replicas;
  }

  [[nodiscard]] std::uint32_t ready(std::size_t minute) {
    std::erase_if(starting_, [&](const Start& start) { return start.minute <= minute; });
    std::uint32_t ready = ordered_;
    for (const Start& start : starting_) ready -= start.replicas;
    return ready;
  }

 private:
  struct Start {
    std::size_t minute;
    std::uint32_t replicas;
  };
  std::uint32_t ordered_ = 0;
  std::vector<Start> starting_;  // In the order of their start.
};

// Requests/s that an offer's ready replicas carry: those of the highest step that they complete.
double carried_by(const Offer& offer, const std::vector<std::uint32_t>& ready, std::size_t first_pool) {
  double carried = 0.0;
  for (const Step& step : offer.steps) {
    for (std::size_t p = 0; p < step.replicas.size(); ++p)
      if (step.replicas[p] > ready[first_pool + p]) return carried;
    carried = step.carried_rps;
  }
  return carried;
}

class Run {
 public:
  Run(const std::vector<ChangingDeployment>& deployments, const OverTimeOptions& options)
      : deployments_(deployments), options_(options) {
    for (const ChangingDeployment& each : deployments) {
      total_.deployments.push_back({each.deployment.name, 0.0, 0.0});
      fleets_.emplace_back(each.start_up.size());
    }
    total_.minutes = deployments.empty() ? 0 : deployments[0].rps_by_minute.size() - options.minutes_each;
  }

  [[nodiscard]] std::size_t first() const { return options_.minutes_each; }
  [[nodiscard]] std::size_t end() const { return first() + total_.minutes; }

  // Carries out a plan from one minute to another.
  void follow(const GlobalPlan& plan, std::size_t from, std::size_t to) {
    adopt(plan, from);
    const double hours = static_cast<double>(to - from) / kMinutesPerHour;
    for (const PoolPlan& pool : plan.pools) total_.gpu_hours += static_cast<double>(pool.gpus) * hours;
    total_.cost += plan.cost_per_hour * hours;
    for (std::size_t minute = from; minute < to; ++minute)
      for (std::size_t d = 0; d < deployments_.size(); ++d) serve(d, minute);
  }

  void keep(IntervalPlan interval) { total_.intervals.push_back(std::move(interval)); }
  [[nodiscard]] OverTime take() { return std::move(total_); }

 private:
  // Pools of a plan are in the order of the deployments and their offers.
  void adopt(const GlobalPlan& plan, std::size_t minute) {
    auto pool = plan.pools.begin();
    for (std::size_t d = 0; d < fleets_.size(); ++d)
      for (std::size_t p = 0; p < fleets_[d].size(); ++p, ++pool) {
        const core::Duration start_up = deployments_[d].start_up[p];
        const auto minutes = static_cast<std::size_t>(std::chrono::ceil<std::chrono::minutes>(start_up).count());
        if (minute == first())
          fleets_[d][p].place(pool->replicas);
        else
          fleets_[d][p].order(pool->replicas, minute + minutes);
      }
  }

  void serve(std::size_t d, std::size_t minute) {
    std::vector<std::uint32_t> ready;
    for (Running& pool : fleets_[d]) ready.push_back(pool.ready(minute));
    double carried = 0.0;
    std::size_t first_pool = 0;
    for (const Offer& offer : deployments_[d].deployment.offers) {
      carried += carried_by(offer, ready, first_pool);
      first_pool += offer.pools.size();
    }
    const double rps = deployments_[d].rps_by_minute[minute];
    total_.deployments[d].requests += rps * kSecondsPerMinute;
    total_.deployments[d].kept += std::min(rps, carried) * kSecondsPerMinute;
  }

  const std::vector<ChangingDeployment>& deployments_;
  const OverTimeOptions& options_;
  std::vector<std::vector<Running>> fleets_;  // By deployment and pool.
  OverTime total_;
};

std::vector<PoolReplicas> in_force(const GlobalPlan& plan) {
  std::vector<PoolReplicas> previous;
  for (const PoolPlan& pool : plan.pools) previous.push_back({pool.deployment, pool.pool, pool.replicas});
  return previous;
}

}  // namespace

core::Result<OverTime> plan_over_time(const std::vector<ChangingDeployment>& deployments,
                                      const std::vector<Hardware>& hardware, const Budget& budget,
                                      const OverTimeOptions& options) {
  if (auto error = check_series(deployments, options)) return tl::make_unexpected(std::move(*error));
  Run run{deployments, options};
  Options each = options.plan;
  for (std::size_t minute = run.first(); minute < run.end(); minute += options.minutes_each) {
    IntervalPlan interval{minute, {}, {}};
    std::vector<Deployment> now;
    for (const ChangingDeployment& changing : deployments) {
      now.push_back(changing.deployment);
      now.back().demand_rps = peak(changing.rps_by_minute, minute - options.minutes_each, minute);
      interval.planned_rps.push_back(now.back().demand_rps);
    }
    auto planned = plan(now, hardware, budget, each);
    if (!planned) return tl::make_unexpected(std::move(planned.error()));
    each.previous = in_force(*planned);
    run.follow(*planned, minute, std::min(minute + options.minutes_each, run.end()));
    interval.plan = *std::move(planned);
    run.keep(std::move(interval));
  }
  return run.take();
}

core::Result<OverTime> plan_apart_over_time(const std::vector<ChangingDeployment>& deployments,
                                            const std::vector<Hardware>& hardware, const Budget& budget,
                                            const OverTimeOptions& options) {
  if (auto error = check_series(deployments, options)) return tl::make_unexpected(std::move(*error));
  std::vector<Deployment> at_mean;
  for (const ChangingDeployment& each : deployments) {
    at_mean.push_back(each.deployment);
    const auto counted = each.rps_by_minute.begin() + static_cast<std::ptrdiff_t>(options.minutes_each);
    at_mean.back().demand_rps = std::accumulate(counted, each.rps_by_minute.end(), 0.0) /
                                static_cast<double>(each.rps_by_minute.end() - counted);
  }
  const auto shares = budget_shares(at_mean, hardware, budget);
  if (!shares) return tl::make_unexpected(shares.error());
  OverTime total;
  for (std::size_t d = 0; d < deployments.size(); ++d) {
    auto alone = plan_over_time({deployments[d]}, (*shares)[d].hardware, (*shares)[d].budget, options);
    if (!alone) return alone;
    total.minutes = alone->minutes;
    total.gpu_hours += alone->gpu_hours;
    total.cost += alone->cost;
    total.deployments.push_back(std::move(alone->deployments[0]));
  }
  return total;
}

core::Result<OverTime> plan_once_at_peak(const std::vector<ChangingDeployment>& deployments,
                                         const std::vector<Hardware>& hardware, const Budget& budget,
                                         const OverTimeOptions& options) {
  if (auto error = check_series(deployments, options)) return tl::make_unexpected(std::move(*error));
  Run run{deployments, options};
  std::vector<Deployment> at_peak;
  for (const ChangingDeployment& each : deployments) {
    at_peak.push_back(each.deployment);
    at_peak.back().demand_rps = peak(each.rps_by_minute, run.first(), run.end());
  }
  const auto planned = plan(at_peak, hardware, budget, options.plan);
  if (!planned) return tl::make_unexpected(planned.error());
  run.follow(*planned, run.first(), run.end());
  return run.take();
}

}  // namespace penstock::planner::global
