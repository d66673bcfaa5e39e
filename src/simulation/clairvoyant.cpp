#include "simulation/clairvoyant.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "simulation/load_curve.h"
#include "simulation/schedule.h"
#include "simulation/schedule_moves.h"

namespace penstock::simulation {
namespace {

constexpr core::Duration kForever = std::chrono::hours{24 * 365};
constexpr double kBelowBest = 0.005;    // Below the attainment of the largest fleet, if the goal is out of reach.
constexpr double kDearestMiss = 100.0;  // Times the mean cost of a request. A rough model may ask for any price.
constexpr std::uint32_t kMovesBeforeCheck = 3;
constexpr std::uint32_t kFewRuns = 20;
constexpr double kDrift = 0.02;  // Before the first check: changes were selected partly for their luck.

using decision::RunResult;
using decision::SeriesPoint;

// The live router gives a new replica its full share only after this time.
core::Duration slow_start(const RunOptions& options) {
  if (options.router != routing::Strategy::kLive) return {};
  return options.dispatch.value_or(dispatch::DispatchOptions{}).picker.slow_start;
}

struct Trial {
  std::vector<Schedule> schedules;  // By pool.
  double misses = 0.0, cost = 0.0;
  double attainment = 0.0;
  core::Duration request_time{}, itl{};  // 95th percentile and median.
  std::vector<SeriesPoint> series;
};

class Search {
 public:
  Search(const workload::Workload& workload, const RunOptions& options, const ClairvoyantOptions& clairvoyant)
      : workload_(workload), options_(options), requests_(static_cast<double>(workload.requests.size())) {
    const core::Duration narrowest = clairvoyant.narrowest_window;
    const auto points = std::clamp<std::int64_t>((workload.span() + narrowest - core::Duration{1}) / narrowest, 1,
                                                 clairvoyant.windows_max);
    options_.series_points = static_cast<std::uint32_t>(points);
    progress_ = std::exchange(options_.progress, nullptr);
    const std::uint64_t affordable = clairvoyant.requests_simulated / workload.requests.size();
    budget_ =
        static_cast<std::uint32_t>(std::clamp<std::uint64_t>(affordable, clairvoyant.runs_min, clairvoyant.runs_max));
    allowed_ = (1.0 - options.slo_goal) * requests_ + 1e-6;
    for (const PoolSpec& pool : options.pools) {
      const double price = pool.price_per_gpu_hour > 0.0 ? pool.price_per_gpu_hour : 1.0;
      moves_.prices.push_back(price * pool.gpus_per_replica);
      moves_.limits.push_back({pool.replicas, pool.start_up, slow_start(options)});
    }
  }

  core::Result<Trial> find() {
    samples_.resize(pools());
    return try_fixed_fleets()
        .and_then([this] { return plan_by_model(); })
        .and_then([this] { return move_on(); })
        .and_then([this] { return try_cheaper_fixed_fleets(); })
        .map([this] { return *std::move(best_); });
  }

 private:
  [[nodiscard]] std::size_t pools() const { return options_.pools.size(); }
  [[nodiscard]] bool reaches(const Trial& trial) const { return trial.misses <= allowed_; }

  [[nodiscard]] bool is_better(const Trial& trial, const Trial& than) const {
    if (!reaches(trial)) return trial.misses < than.misses;
    return !reaches(than) || trial.cost < than.cost;
  }

  core::Result<Trial> simulate(std::vector<Schedule> schedules) {
    ++runs_;
    if (progress_) progress_(std::min(1.0, static_cast<double>(runs_) / static_cast<double>(budget_)));
    FollowSchedules policy{schedules, slow_start(options_)};
    auto result = run(workload_, policy, options_);
    if (!result) return tl::make_unexpected(result.error());
    Trial trial{std::move(schedules),
                std::round((1.0 - result->slo_attainment) * requests_),
                result->cost > 0.0 ? result->cost : result->gpu_hours,
                result->slo_attainment,
                core::from_milliseconds(result->e2e_ms.p95),
                core::from_milliseconds(result->tpot_ms.p50),
                std::move(result->series)};
    point_ = trial.series.front().at.time_since_epoch();
    return trial;
  }

  // Simulates, and keeps the result if it is the best so far.
  core::Result<Trial> attempt(std::vector<Schedule> schedules) {
    auto trial = simulate(std::move(schedules));
    if (!trial) return trial;
    if (!best_ || is_better(*trial, *best_)) best_ = *trial;
    tried_.push_back(*trial);
    tried_.back().series.clear();
    return trial;
  }

  // No fleet reaches the goal: the cheapest that comes near the best is used.
  void lower_goal() {
    allowed_ = best_->misses + kBelowBest * requests_;
    for (const Trial& trial : tried_)
      if (is_better(trial, *best_)) best_ = trial;
  }

  [[nodiscard]] bool knows_largest() const {
    return pools() > 1 || fixed_.at(0).contains(options_.pools[0].max_replicas);
  }

  // ---- 1: fixed fleets ----------------------------------------------------------------------------------------------

  [[nodiscard]] static std::vector<Schedule> fixed(const std::vector<std::uint32_t>& sizes) {
    std::vector<Schedule> schedules;
    for (const std::uint32_t size : sizes) schedules.push_back({kForever, {size}});
    return schedules;
  }

  [[nodiscard]] std::vector<std::uint32_t> largest() const {
    std::vector<std::uint32_t> sizes;
    for (const PoolSpec& pool : options_.pools) sizes.push_back(pool.max_replicas);
    return sizes;
  }

  core::Result<void> try_fixed_fleets() {
    std::vector<std::uint32_t> smallest_that_reach;
    for (std::size_t pool = 0; pool < pools(); ++pool) {
      auto size = search_size(pool);
      if (!size) return tl::make_unexpected(size.error());
      smallest_that_reach.push_back(*size);
    }
    if (pools() > 1) {
      best_.reset();
      if (auto joint = try_joint_fleets(std::move(smallest_that_reach)); !joint) return joint;
    }
    if (!reaches(*best_) && knows_largest()) lower_goal();
    // Windows that are shorter than requests are served by the fleet of another window.
    const core::Duration longest = best_->request_time;
    points_per_window_ = std::max<std::int64_t>(1, (longest + point_ - core::Duration{1}) / point_);
    points_per_window_ =
        std::min<std::int64_t>(points_per_window_, std::max<std::int64_t>(1, options_.series_points / 4));
    return {};
  }

  // Returns the smallest size that reaches the goal beside full fleets of the other pools; the largest if none does.
  core::Result<std::uint32_t> search_size(std::size_t pool) {
    const PoolSpec& spec = options_.pools[pool];
    const std::uint32_t smallest = std::max(1U, spec.min_replicas);
    const auto limit = std::clamp<std::size_t>(budget_ / 5, 3, 10);
    std::uint32_t failed = smallest - 1;
    std::optional<std::uint32_t> good;
    std::uint32_t size = std::clamp(spec.replicas, smallest, spec.max_replicas);
    std::map<std::uint32_t, Trial>& tried = fixed_[pool];
    for (;;) {
      std::vector<std::uint32_t> sizes = largest();
      sizes[pool] = size;
      auto trial = attempt(fixed(sizes));
      if (!trial) return tl::make_unexpected(trial.error());
      if (reaches(*trial))
        good = size;
      else
        failed = size;
      tried.emplace(size, *std::move(trial));
      if (good ? *good - failed == 1 || tried.size() >= limit : failed == spec.max_replicas) break;
      // Of a long workload, the model is worth more runs than the fixed fleet that suffices.
      if (pools() == 1 && tried.size() >= limit && budget_ < kFewRuns) break;
      const std::uint32_t guess = model(pool).fixed_size(smallest, spec.max_replicas, allowed_);
      if (good)
        size = std::clamp(guess, failed + 1, *good - 1);
      else
        size = std::clamp(tried.size() < limit ? guess : 2 * failed, failed + std::max(1U, failed / 4), 4 * failed);
      size = std::min(size, spec.max_replicas);
    }
    return good.value_or(spec.max_replicas);
  }

  // Both pools grow from the sizes that suffice beside a full fleet of the other, until the goal is reached.
  core::Result<void> try_joint_fleets(std::vector<std::uint32_t> sizes) {
    for (;;) {
      auto trial = attempt(fixed(sizes));
      if (!trial) return tl::make_unexpected(trial.error());
      if (reaches(*trial) || sizes == largest()) return {};
      for (std::size_t pool = 0; pool < pools(); ++pool)
        sizes[pool] = std::min(options_.pools[pool].max_replicas, sizes[pool] + std::max(1U, sizes[pool] / 4));
    }
  }

  // ---- 2: the model -------------------------------------------------------------------------------------------------

  [[nodiscard]] core::Duration window() const { return point_ * points_per_window_; }
  [[nodiscard]] std::size_t windows() const { return static_cast<std::size_t>(workload_.span() / window()) + 1; }

  struct Seen {
    std::vector<double> misses, requests;       // By window.
    std::vector<std::vector<double>> replicas;  // By pool and window.
  };

  [[nodiscard]] Seen seen_in(const Trial& trial) const {
    const std::size_t count = windows();
    Seen seen{std::vector<double>(count), std::vector<double>(count), {}};
    std::vector<double> points(count);
    seen.replicas.assign(pools(), std::vector<double>(count));
    for (std::size_t i = 0; i < trial.series.size(); ++i) {
      const SeriesPoint& point = trial.series[i];
      const std::size_t at = std::min(i / static_cast<std::size_t>(points_per_window_), count - 1);
      seen.misses[at] += static_cast<double>(point.judged - point.met_slo);
      seen.requests[at] += static_cast<double>(point.arrived);
      points[at] += 1.0;
      for (std::size_t pool = 0; pool < pools(); ++pool) seen.replicas[pool][at] += point.ready_by_pool[pool];
    }
    for (auto& replicas : seen.replicas)
      for (std::size_t at = 0; at < count; ++at) replicas[at] /= std::max(1.0, points[at]);
    return seen;
  }

  void add_samples(const Seen& seen, std::size_t pool) {
    for (std::size_t at = 0; at < seen.misses.size(); ++at)
      if (seen.requests[at] > 0.0)
        samples_[pool].push_back({at, seen.replicas[pool][at], seen.misses[at] / seen.requests[at]});
  }

  // Of the runs with fixed fleets.
  [[nodiscard]] LoadCurve model(std::size_t pool) {
    const std::map<std::uint32_t, Trial>& tried = fixed_[pool];
    samples_[pool].clear();
    for (const auto& [size, trial] : tried) add_samples(seen_in(trial), pool);
    const TokenLoad load = token_load(workload_, window(), windows(), tried.rbegin()->second.itl);
    return LoadCurve::fit(load, options_.pools[pool].role, samples_[pool]);
  }

  // ---- 3 and 4: schedules of the model ------------------------------------------------------------------------------

  [[nodiscard]] MissTable table(std::size_t pool, std::uint32_t needed = 0) const {
    return curves_[pool].table(options_.pools[pool].min_replicas, options_.pools[pool].max_replicas, needed);
  }

  core::Result<void> plan_by_model() {
    for (std::size_t pool = 0; pool < pools(); ++pool) curves_.push_back(model(pool));
    double aim = allowed_;
    base_ = *best_;
    const std::uint32_t rounds = std::max(3U, budget_ / 5);
    for (std::uint32_t round = 0; round < rounds; ++round) {
      std::vector<Schedule> schedules;
      double price_s = 0.0;
      for (std::size_t pool = 0; pool < pools(); ++pool) {
        PricedSchedule priced = cheapest_within(table(pool), moves_.limits[pool], aim / static_cast<double>(pools()));
        price_s = std::max(price_s, priced.price_s * moves_.prices[pool]);
        schedules.push_back(std::move(priced));
      }
      const double request_s = 3600.0 * best_->cost / requests_;
      moves_.price_s = std::clamp(price_s, request_s, kDearestMiss * request_s);
      auto trial = attempt(std::move(schedules));
      if (!trial) return tl::make_unexpected(trial.error());
      learn(*trial);
      const double ratio = (allowed_ + 1.0) / (trial->misses + 1.0);
      aim *= std::clamp(trial->misses > allowed_ ? ratio : std::sqrt(ratio), 0.5, 1.5);
      if (priced_cost(*trial) < priced_cost(base_)) base_ = *std::move(trial);
    }
    return {};
  }

  // With the misses beyond those that are allowed, at the price of the last schedule.
  [[nodiscard]] double priced_cost(const Trial& trial) const {
    return 3600.0 * trial.cost + moves_.price_s * std::max(0.0, trial.misses - allowed_);
  }

  void learn(const Trial& trial) {
    const Seen seen = seen_in(trial);
    if (pools() == 1) {
      add_samples(seen, 0);
      curves_[0].refit(samples_[0]);
    }
    for (std::size_t at = 0; at < seen.misses.size(); ++at) {
      if (seen.requests[at] <= 0.0) continue;
      std::vector<double> expected;
      double sum = 0.0, busiest = 0.0;
      std::size_t responsible = 0;
      for (std::size_t pool = 0; pool < pools(); ++pool) {
        const double replicas = seen.replicas[pool][at];
        sum += expected.emplace_back(curves_[pool].missed(at, replicas));
        if (const double load = curves_[pool].utilisation(at, replicas); load > busiest) {
          busiest = load;
          responsible = pool;
        }
      }
      const double excess = seen.misses[at] / seen.requests[at] - sum;
      // Half of what was not expected may come from the window before.
      const bool carried = excess > 0.0 && at > 0 && seen.misses[at - 1] > 0.0 && seen.requests[at - 1] > 0.0;
      for (std::size_t pool = 0; pool < pools(); ++pool) {
        if (excess > 0.0 && pool != responsible) continue;
        const double change =
            excess > 0.0 ? excess * (carried ? 0.5 : 1.0) : excess * (sum > 0.0 ? expected[pool] / sum : 0.0);
        curves_[pool].correct({at, seen.replicas[pool][at], std::clamp(expected[pool] + change, 0.0, 1.0)});
        if (!carried) continue;
        const double before = curves_[pool].missed(at - 1, seen.replicas[pool][at - 1]) +
                              change * seen.requests[at] / seen.requests[at - 1];
        curves_[pool].correct({at - 1, seen.replicas[pool][at - 1], std::clamp(before, 0.0, 1.0)});
      }
    }
  }

  // ---- 5: small changes ---------------------------------------------------------------------------------------------

  [[nodiscard]] std::vector<Schedule> by_window(const std::vector<Schedule>& schedules) const {
    std::vector<Schedule> made = schedules;
    for (Schedule& schedule : made)
      if (schedule.window != window()) schedule = {window(), std::vector(windows(), schedule.replicas.front())};
    return made;
  }

  [[nodiscard]] SchedulePlan plan_of(const Trial& trial) const {
    return {by_window(trial.schedules), seen_in(trial).misses, trial.misses};
  }

  core::Result<void> move_on() {
    SchedulePlan plan = plan_of(base_);
    const std::vector<Schedule> other = by_window(best_->schedules);
    for (std::size_t pool = 0; pool < pools(); ++pool)
      moves_.tables.push_back(table(
          pool, 1 + std::max(std::ranges::max(plan.schedules[pool].replicas), std::ranges::max(other[pool].replicas))));
    const std::uint32_t until = budget_ - (pools() == 1 && budget_ >= kFewRuns ? 1 : 0);
    std::set<Move> tried;
    std::uint32_t since_check = 0;
    double drift = kDrift * allowed_;  // How many more misses a check finds than are expected.
    while (runs_ < until) {
      std::vector<Move> moves;
      if (since_check < kMovesBeforeCheck && runs_ + 1 < until) moves = propose(plan, moves_, tried);
      if (moves.empty() && since_check == 0) break;
      std::vector<Schedule> schedules = plan.schedules;
      for (const Move& move : moves) apply(move, schedules);
      auto trial = attempt(std::move(schedules));
      if (!trial) return tl::make_unexpected(trial.error());
      const std::vector<double> misses = seen_in(*trial).misses;
      if (moves.empty()) {
        drift = std::max(0.0, trial->misses - plan.total);
        plan = plan_of(*trial);
        since_check = 0;
        if (is_better(*best_, *trial)) plan = plan_of(*best_);
      } else {
        adopt(moves, misses, allowed_ - drift, moves_, plan);
        ++since_check;
      }
    }
    return {};
  }

  // ---- 6: what is found is not dearer than a fixed fleet ------------------------------------------------------------

  core::Result<Trial> try_fixed(std::uint32_t size) {
    auto trial = attempt(fixed({size}));
    if (trial) fixed_[0].emplace(size, *trial);
    return trial;
  }

  core::Result<void> try_cheaper_fixed_fleets() {
    if (pools() > 1) return {};
    const PoolSpec& spec = options_.pools[0];
    if (!reaches(*best_) && !knows_largest()) {
      if (const auto trial = try_fixed(spec.max_replicas); !trial) return tl::make_unexpected(trial.error());
      if (!reaches(*best_)) lower_goal();
    }
    const auto& [size, trial] = *fixed_[0].rbegin();
    const double cost_of_one = trial.cost / size;
    std::uint32_t failed = std::max(1U, spec.min_replicas) - 1;
    for (const auto& [known, result] : fixed_[0])
      if (!reaches(result)) failed = std::max(failed, known);
    // The largest that costs less is tried first: if it misses the goal, so do all others.
    const auto dearest = static_cast<std::uint32_t>(
        std::clamp<double>(std::ceil(best_->cost / cost_of_one) - 1.0, 0.0, spec.max_replicas));
    for (std::uint32_t next = dearest; next > failed;) {
      const auto known = fixed_[0].find(next);
      bool reached = known != fixed_[0].end() && reaches(known->second);
      if (known == fixed_[0].end()) {
        const auto fleet = try_fixed(next);
        if (!fleet) return tl::make_unexpected(fleet.error());
        reached = reaches(*fleet);
      }
      if (!reached) failed = next;
      std::uint32_t smallest = dearest + 1;  // That is known to reach the goal.
      for (const auto& [each, result] : fixed_[0])
        if (reaches(result)) smallest = std::min(smallest, each);
      if (smallest > dearest || smallest <= failed + 1) break;
      next = failed + (smallest - failed) / 2;
    }
    return {};
  }

  const workload::Workload& workload_;
  RunOptions options_;
  double requests_;
  std::function<void(double)> progress_;
  std::uint32_t runs_ = 0, budget_ = 1;
  double allowed_ = 0.0;  // Misses.
  core::Duration point_{};
  std::int64_t points_per_window_ = 1;
  std::map<std::size_t, std::map<std::uint32_t, Trial>> fixed_;  // By pool and size.
  std::vector<std::vector<LoadSample>> samples_;                 // By pool.
  std::vector<LoadCurve> curves_;                                // By pool.
  MoveContext moves_;
  std::vector<Trial> tried_;  // All, without their series.
  Trial base_;                // Where small changes begin.
  std::optional<Trial> best_;
};

}  // namespace

core::Result<Clairvoyant> make_clairvoyant(const workload::Workload& workload, const RunOptions& options,
                                           const ClairvoyantOptions& clairvoyant) {
  if (workload.requests.empty()) return core::invalid_input("workload", "has no requests");
  return Search{workload, options, clairvoyant}.find().map([&](Trial trial) {
    return Clairvoyant{std::make_unique<FollowSchedules>(std::move(trial.schedules), slow_start(options)),
                       options.slo_goal, trial.attainment};
  });
}

}  // namespace penstock::simulation
