#include "simulation/clairvoyant.h"

#include <algorithm>
#include <cmath>
#include <compare>
#include <optional>
#include <set>
#include <utility>

#include "simulation/schedule.h"

namespace penstock::simulation {
namespace {

constexpr core::Duration kForever = std::chrono::hours{24 * 365};

using decision::RunResult;
using decision::SeriesPoint;

std::vector<double> misses_by_window(const RunResult& result, std::size_t windows) {
  std::vector<double> misses(windows);
  for (std::size_t i = 0; i < result.series.size(); ++i) {
    const SeriesPoint& point = result.series[i];
    misses[std::min(i, windows - 1)] += static_cast<double>(point.arrived - point.met_slo);
  }
  return misses;
}

double count_misses(const RunResult& result) {
  return std::round((1.0 - result.slo_attainment) * static_cast<double>(result.requests));
}

// Every size up to 8, then steps of a quarter.
std::vector<std::uint32_t> sizes_to_try(std::uint32_t smallest, std::uint32_t largest) {
  std::vector<std::uint32_t> sizes;
  for (std::uint32_t size = smallest; size < largest; size += size < 8 ? 1U : size / 4) sizes.push_back(size);
  sizes.push_back(largest);
  return sizes;
}

// Between two simulated sizes, misses are taken to fall evenly; a larger fleet never misses more.
void fill_between(std::vector<double>& row, std::size_t from, std::size_t to) {
  row[to] = std::min(row[to], row[from]);
  for (std::size_t n = from + 1; n < to; ++n)
    row[n] = row[from] + (row[to] - row[from]) * static_cast<double>(n - from) / static_cast<double>(to - from);
}

class Search {
 public:
  Search(const workload::Workload& workload, const RunOptions& options, const ClairvoyantOptions& clairvoyant)
      : workload_(workload), options_(options), clairvoyant_(clairvoyant) {
    const core::Duration narrowest = clairvoyant.narrowest_window;
    const auto windows = std::clamp<std::int64_t>((workload.span() + narrowest - core::Duration{1}) / narrowest, 1,
                                                  clairvoyant.windows_max);
    options_.series_points = static_cast<std::uint32_t>(windows);
    progress_ = std::exchange(options_.progress, nullptr);
    for (const PoolSpec& pool : options_.pools)
      runs_expected_ += 3 * sizes_to_try(pool.min_replicas, pool.max_replicas).size();
    runs_expected_ += clairvoyant.refinements + clairvoyant.trims;
  }

  core::Result<std::vector<Schedule>> find() {
    std::vector<std::uint32_t> full;
    std::vector<Schedule> all_at_once;
    for (const PoolSpec& pool : options_.pools) {
      full.push_back(pool.max_replicas);
      all_at_once.push_back({kForever, {pool.max_replicas}});
    }
    // The goal is set by the best that can be done from the fleet there is at the start.
    auto reached = simulate(all_at_once, options_);
    if (!reached) return tl::make_unexpected(reached.error());
    window_ = reached->series.front().at.time_since_epoch();
    windows_ = static_cast<std::size_t>(workload_.span() / window_) + 1;
    allowed_ = static_cast<double>(reached->requests) -
               std::ceil(clairvoyant_.goal * (static_cast<double>(reached->requests) - count_misses(*reached)));
    for (std::size_t pool = 0; pool < full.size(); ++pool)
      if (auto made = make_table(pool, full); !made) return tl::make_unexpected(made.error());
    return refine();
  }

 private:
  core::Result<void> make_table(std::size_t pool, const std::vector<std::uint32_t>& full) {
    const PoolSpec& spec = options_.pools[pool];
    MissTable table{window_, spec.min_replicas, std::vector<std::vector<double>>(windows_)};
    std::size_t filled = 0;
    double fewest = allowed_;
    for (const std::uint32_t size : sizes_to_try(spec.min_replicas, spec.max_replicas)) {
      auto misses = misses_without_backlog(pool, full, size);
      if (!misses) return tl::make_unexpected(misses.error());
      const std::size_t at = size - spec.min_replicas;
      double sum = 0.0;
      for (std::size_t window = 0; window < windows_; ++window) {
        auto& row = table.misses[window];
        row.resize(at + 1);
        row[at] = (*misses)[window];
        if (at > 0) fill_between(row, filled, at);
        sum += row[at];
      }
      filled = at;
      // Larger fleets are worth a look while they still save a twentieth of what may be missed.
      if (sum <= 0.5 * allowed_ && sum >= fewest - 0.05 * allowed_) break;
      fewest = std::min(fewest, sum);
    }
    tables_.push_back(std::move(table));
    return {};
  }

  // What misses in each window that is served by `size` replicas of the pool, when a larger fleet served the window
  // before and left nothing behind: two runs, each with the size in every other window.
  core::Result<std::vector<double>> misses_without_backlog(std::size_t pool, const std::vector<std::uint32_t>& full,
                                                           std::uint32_t size) {
    RunOptions options = options_;
    std::vector<Schedule> schedules;
    for (std::size_t i = 0; i < full.size(); ++i) {
      options.pools[i].start_up = core::Duration{};
      options.pools[i].replicas = i == pool ? size : full[i];
      schedules.push_back({window_, std::vector<std::uint32_t>(windows_, options.pools[i].replicas)});
    }
    std::vector<double> misses(windows_);
    for (const std::size_t first : {0U, 1U}) {
      for (std::size_t window = 0; window < windows_; ++window)
        schedules[pool].replicas[window] = window % 2 == first ? size : std::min(full[pool], 2 * size + 2);
      auto result = simulate(schedules, options);
      if (!result) return tl::make_unexpected(result.error());
      const std::vector<double> seen = misses_by_window(*result, windows_);
      for (std::size_t window = first; window < windows_; window += 2) misses[window] = seen[window];
    }
    return misses;
  }

  struct Trial {
    std::vector<Schedule> schedules;  // by pool
    double misses = 0.0;
    RunResult result;
  };

  core::Result<RunResult> simulate(const std::vector<Schedule>& schedules, const RunOptions& options) {
    ++runs_;
    if (progress_) progress_(std::min(1.0, static_cast<double>(runs_) / static_cast<double>(runs_expected_)));
    FollowSchedules policy{schedules};
    return run(workload_, policy, options);
  }

  core::Result<Trial> attempt(std::vector<Schedule> schedules) {
    auto result = simulate(schedules, options_);
    if (!result) return tl::make_unexpected(result.error());
    return Trial{std::move(schedules), count_misses(*result), *std::move(result)};
  }

  [[nodiscard]] bool is_better(const Trial& trial, const Trial& than) const {
    if (trial.misses > allowed_) return trial.misses < than.misses;
    return than.misses > allowed_ || trial.result.cost < than.result.cost;
  }

  // The best fleet of one size, from the first moment on: what is found must not be dearer than that.
  core::Result<Trial> best_fixed_fleet() {
    std::optional<Trial> best;
    const PoolSpec& spec = options_.pools.front();
    for (const std::uint32_t size : sizes_to_try(std::max(1U, spec.min_replicas), tables_.front().largest())) {
      auto trial = attempt({{window_, std::vector<std::uint32_t>(windows_, size)}});
      if (!trial) return trial;
      if (!best || is_better(*trial, *best)) best = *std::move(trial);
      if (best->misses <= allowed_) break;
    }
    return *std::move(best);
  }

  core::Result<std::vector<Schedule>> refine() {
    std::optional<Trial> best;
    if (tables_.size() == 1) {
      auto fixed = best_fixed_fleet();
      if (!fixed) return tl::make_unexpected(fixed.error());
      best = *std::move(fixed);
    }
    double aim = allowed_ / static_cast<double>(tables_.size());
    for (std::uint32_t i = 0; i < clairvoyant_.refinements; ++i) {
      std::vector<Schedule> schedules;
      for (std::size_t pool = 0; pool < tables_.size(); ++pool) {
        const PoolSpec& spec = options_.pools[pool];
        schedules.push_back(cheapest_within(tables_[pool], {spec.replicas, spec.start_up}, aim));
      }
      auto trial = attempt(std::move(schedules));
      if (!trial) return tl::make_unexpected(trial.error());
      correct(trial->schedules, trial->result);
      // Aim lower when too many missed, and a little higher when there was room.
      const double ratio = (allowed_ + 1.0) / (trial->misses + 1.0);
      aim *= std::clamp(trial->misses > allowed_ ? ratio : std::sqrt(ratio), 0.5, 1.5);
      if (!best || is_better(*trial, *best)) best = *std::move(trial);
    }
    return trim(*std::move(best));
  }

  // Takes a replica out of one stretch after the other, where the table expects the least harm for what it saves, and
  // keeps what the simulation finds good.
  core::Result<std::vector<Schedule>> trim(Trial best) {
    std::set<Cut> refused;
    for (std::uint32_t i = 0; i < clairvoyant_.trims; ++i) {
      const std::optional<Cut> cut = most_promising(best.schedules, refused);
      if (!cut) break;
      std::vector<Schedule> schedules = best.schedules;
      for (std::size_t window = cut->begin; window < cut->end; ++window) --schedules[cut->pool].replicas[window];
      auto trial = attempt(std::move(schedules));
      if (!trial) return tl::make_unexpected(trial.error());
      if (is_better(*trial, best))
        best = *std::move(trial);
      else
        refused.insert(*cut);
    }
    return std::move(best.schedules);
  }

  struct Cut {
    std::size_t pool, begin, end;  // windows [begin, end)
    auto operator<=>(const Cut&) const = default;
  };

  [[nodiscard]] std::optional<Cut> most_promising(const std::vector<Schedule>& schedules,
                                                  const std::set<Cut>& refused) const {
    std::optional<Cut> best;
    double best_worth = 0.0;
    for (std::size_t pool = 0; pool < schedules.size(); ++pool) {
      const std::vector<std::uint32_t>& replicas = schedules[pool].replicas;
      const MissTable& table = tables_[pool];
      for (std::size_t begin = 0, end = 0; begin < windows_; begin = end) {
        while (end < windows_ && replicas[end] == replicas[begin]) ++end;
        const std::size_t at = replicas[begin] - table.smallest;
        if (at == 0) continue;
        const std::size_t middle = (begin + end) / 2;
        for (const Cut& cut : {Cut{pool, begin, end}, Cut{pool, begin, middle}, Cut{pool, middle, end},
                               Cut{pool, begin, begin + 1}, Cut{pool, end - 1, end}}) {
          if (cut.begin == cut.end || refused.contains(cut)) continue;
          double harm = 1.0;
          for (std::size_t window = cut.begin; window < cut.end; ++window)
            harm += table.misses[window][at - 1] - table.misses[window][at];
          const double worth = static_cast<double>(cut.end - cut.begin) / harm;
          if (worth <= best_worth) continue;
          best = cut;
          best_worth = worth;
        }
      }
    }
    return best;
  }

  // Simulated values replace the table's values for these sizes. Half of the additional misses of a window are assigned
  // to the window before, whose backlog it had to serve.
  void correct(const std::vector<Schedule>& schedules, const RunResult& result) {
    const std::vector<double> seen = misses_by_window(result, windows_);
    for (std::size_t pool = 0; pool < tables_.size(); ++pool) {
      MissTable& table = tables_[pool];
      for (std::size_t window = 0; window < windows_; ++window) {
        const std::size_t at = schedules[pool].replicas[window] - table.smallest;
        const double excess = seen[window] - table.misses[window][at];
        if (excess > 0.0) {
          raise(table.misses[window], at, 0.5 * excess);
          if (window > 0)
            raise(table.misses[window - 1], schedules[pool].replicas[window - 1] - table.smallest, 0.5 * excess);
        } else if (tables_.size() == 1) {
          for (std::size_t n = at; n < table.misses[window].size(); ++n)
            table.misses[window][n] = std::min(table.misses[window][n], seen[window]);
        }
      }
    }
  }

  static void raise(std::vector<double>& row, std::size_t at, double excess) {
    for (std::size_t n = 0; n <= at; ++n) row[n] += excess;
  }

  const workload::Workload& workload_;
  RunOptions options_;
  const ClairvoyantOptions& clairvoyant_;
  std::function<void(double)> progress_;
  std::size_t runs_ = 0, runs_expected_ = 1;
  core::Duration window_{};
  std::size_t windows_ = 1;
  double allowed_ = 0.0;
  std::vector<MissTable> tables_;  // by pool
};

}  // namespace

core::Result<std::unique_ptr<decision::Policy>> make_clairvoyant(const workload::Workload& workload,
                                                                 const RunOptions& options,
                                                                 const ClairvoyantOptions& clairvoyant) {
  if (workload.requests.empty()) return core::invalid_input("workload", "has no requests");
  auto schedules = Search{workload, options, clairvoyant}.find();
  if (!schedules) return tl::make_unexpected(schedules.error());
  return std::make_unique<FollowSchedules>(std::move(*schedules));
}

}  // namespace penstock::simulation
