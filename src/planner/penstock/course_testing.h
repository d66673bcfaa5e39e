// For tests: runs Penstock's planner on steady traffic, with trials that are a formula.
#pragma once

#include <algorithm>
#include <cmath>
#include <deque>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "planner/penstock/penstock_planner.h"
#include "planner/planner_testing.h"

namespace penstock::planner::testing {

// Each replica of a pool serves a number of requests per second. A fleet serves what its weakest pool serves; for an
// objective with a factor, that share of it.
class FormulaTrials final : public FleetTrials {
 public:
  explicit FormulaTrials(std::vector<double> per_replica) : per_replica_(std::move(per_replica)) {}

  void load(const TrialTraffic& traffic) override {
    ++loads;
    judged_.clear();
    if (traffic.requests.empty()) return;
    for (const signals::RecentRequest& request : traffic.requests) {
      if (request.arrival <= traffic.judged_from || request.arrival >= traffic.judged_until) continue;
      if (judged_.size() <= request.target) judged_.resize(request.target + 1U, 0.0);
      judged_[request.target] += 1.0;
    }
    const double seconds = core::to_seconds(traffic.requests.back().arrival - traffic.requests.front().arrival);
    rate_ = seconds > 0.0 ? static_cast<double>(traffic.requests.size() - 1) / seconds * traffic.rate_factor : 0.0;
  }

  TrialOutcome attempt(std::span<const std::uint32_t> replicas) override {
    ++attempts;
    if (judged_.empty()) return {};
    double kept = 1e9;  // Served share of the arrivals.
    for (std::size_t i = 0; i < replicas.size(); ++i)
      if (rate_ > 0.0) kept = std::min(kept, replicas[i] * per_replica_[i] / rate_);
    TrialOutcome outcome;
    for (std::size_t target = 0; target < judged_.size(); ++target) {
      const double met = std::min(1.0, kept * (target < target_factors.size() ? target_factors[target] : 1.0));
      outcome.all.requests += judged_[target];
      outcome.all.met += met * judged_[target];
      if (!target_factors.empty()) outcome.targets.push_back({judged_[target], met * judged_[target]});
    }
    if (!target_factors.empty()) outcome.targets.resize(target_factors.size());
    outcome.ttft = outcome.itl = outcome.all;
    return outcome;
  }

  void correct(std::span<const EngineCorrection> engines) override {
    corrected.clear();
    for (const EngineCorrection& engine : engines) corrected.push_back(engine.step_time);
  }

  int loads = 0, attempts = 0;
  // By objective: factor of a replica's capacity; empty means that there is one objective.
  std::vector<double> target_factors;
  std::vector<double> corrected;

 private:
  std::vector<double> per_replica_, judged_;  // Requests by objective.
  double rate_ = 0.0;
};

// Both loops are fast, forecasts are not trusted, and futures are not covered.
[[nodiscard]] inline PlannerOptions quick() {
  PlannerOptions options;
  options.interval = std::chrono::seconds{5};
  options.throughput_loop.interval = std::chrono::seconds{60};
  options.load_loop.interval = std::chrono::seconds{5};
  options.load_loop.look_back = std::chrono::minutes{1};
  options.memory = {.length = std::chrono::minutes{5},
                    .slice_least = std::chrono::seconds{30},
                    .slice_most = std::chrono::seconds{30},
                    .slice_requests = 100'000,
                    .tick_requests = 1'000'000};
  for (PlanLoopOptions* loop : {&options.throughput_loop, &options.load_loop}) {
    loop->requests_min = 30;
    loop->enough_requests = 0;
  }
  options.controller = Controller{.allowance = 1.0, .hold = {}};
  options.outlook.growth_min = options.outlook.growth_max = 1.0;
  return options;
}

// Runs a planner: replicas start after `start_up`, engines are empty, and requests arrive evenly.
class Course {
 public:
  explicit Course(const PlannerOptions& options = quick(), const std::vector<double>& per_replica = {2.0},
                  const signals::SloPolicy& slo = {})
      : fleet(per_replica.size(), 4),
        trials(std::make_shared<FormulaTrials>(per_replica)),
        planner(make_penstock_planner(trials, slo, options)),
        interval_s_(core::to_seconds(options.interval)) {}

  // Runs until `until_s` at a rate and returns the last decision, which the next call overwrites.
  const Decision& at_rate(double rate_per_s, double until_s) {
    // After a clock jump backwards, later history by the old clock is dropped.
    std::erase_if(requests, [&](const signals::RecentRequest& request) { return request.arrival > at_s(now_s); });
    if (!history_.empty() && history_.back().first > now_s) history_.clear();
    while (now_s < until_s) {
      const auto count = std::lround(interval_s_ * rate_per_s);
      for (long i = 1; i <= count; ++i) {
        signals::RecentRequest request{
            at_s(now_s + static_cast<double>(i) / rate_per_s), 500, 100, ttft_ms(*this), 10.0F, {}};
        request.target = target_of(requests.size());
        requests.push_back(request);
      }
      now_s += interval_s_;
      last_ = planner->decide(observe());
      for (std::size_t i = 0; i < fleet.size(); ++i) {
        if (fleet[i] == last_.pools[i].target) continue;
        fleet[i] = last_.pools[i].target;
        if (i == 0) changes.emplace_back(now_s, fleet[i]);
      }
    }
    return last_;
  }

  signals::Observation observe() {
    signals::Observation seen;
    seen.now = at_s(now_s);
    history_.emplace_back(now_s, fleet);
    while (history_.size() > 1 && history_.front().first < now_s - start_up_s) history_.pop_front();
    for (std::size_t i = 0; i < fleet.size(); ++i) seen.pools.push_back(pool(i));
    std::size_t first = requests.size();
    while (first > 0 && requests[first - 1].arrival > seen.now - planner->memory()) --first;
    seen.recent = std::span{requests}.subspan(first);
    if (change) change(seen);
    return seen;
  }

  std::vector<std::uint32_t> fleet;  // Targets by pool.
  std::shared_ptr<FormulaTrials> trials;
  std::unique_ptr<Policy> planner;
  std::vector<signals::RecentRequest> requests;
  std::vector<std::pair<double, std::uint32_t>> changes;  // Changes of the first pool: time and new target.
  double now_s = 0.0;
  double start_up_s = 0.0;
  // Objective by request number.
  std::function<std::uint8_t(std::size_t)> target_of = [](std::size_t) { return std::uint8_t{0}; };
  std::function<float(const Course&)> ttft_ms = [](const Course&) { return 100.0F; };  // TTFT of the current arrivals.
  std::function<void(signals::Observation&)> change;

 private:
  signals::PoolObservation pool(std::size_t index) const {
    std::uint32_t ready = fleet[index];
    for (const auto& entry : history_) ready = std::min(ready, entry.second[index]);
    const bool first = index == 0;
    const signals::Role role = fleet.size() == 1 ? signals::Role::kAggregated
                               : first           ? signals::Role::kPrefill
                                                 : signals::Role::kDecode;
    signals::PoolObservation made = with_starting(pool_of(ready, engine(0), role), fleet[index] - ready);
    made.name = first ? "first" : "second";
    made.start_up = core::from_seconds(start_up_s);
    for (auto& replica : made.replicas)
      if (replica.sample) replica.sample->sampled_at = at_s(now_s);
    made.arrivals_total = requests.size();
    made.input_tokens_total = 500 * requests.size();
    signals::TrafficWindow& minute = made.last_minute;
    minute.length = core::from_seconds(std::min(60.0, now_s));
    for (auto request = requests.rbegin(); request != requests.rend() && request->arrival > at_s(now_s - 60);
         ++request) {
      ++minute.arrivals;
      minute.ttft.p95_ms = std::max(minute.ttft.p95_ms, static_cast<double>(request->ttft_ms));
    }
    minute.completed = minute.ttft.count = minute.itl.count = minute.arrivals;
    minute.input_tokens = 500 * minute.arrivals;
    minute.output_tokens = minute.completed_output_tokens = 100 * minute.arrivals;
    minute.itl.p95_ms = 10.0;
    return made;
  }

  Decision last_;
  double interval_s_;
  std::deque<std::pair<double, std::vector<std::uint32_t>>> history_;  // Targets of the last start-up time.
};

}  // namespace penstock::planner::testing
