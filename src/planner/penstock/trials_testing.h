// For tests: trials by a formula that record their inputs, and requests for them.
#pragma once

#include <algorithm>
#include <functional>
#include <initializer_list>
#include <span>
#include <utility>
#include <vector>

#include "core/random.h"
#include "planner/penstock/traffic_memory.h"
#include "planner/penstock/trials.h"
#include "planner/planner_testing.h"

namespace penstock::planner::testing {

// Of the requests that count in a trial, the fleet serves the share that a formula computes for its weakest pool, at
// the full rate and from the time at which counting begins.
class RecordedTrials final : public FleetTrials {
 public:
  using Share = std::function<double(double replicas, core::Instant judged_from)>;
  explicit RecordedTrials(Share share) : share_(std::move(share)) {}

  struct Attempt {
    std::vector<std::uint32_t> replicas;
    double rate_factor;
    double judged_from_s;
    std::size_t requests;         // Includes the warm-up.
    double first_s;               // Arrival of the first request.
    std::size_t running;          // Requests that decode from the start.
    std::size_t earlier;          // Requests whose prompts were computed before.
    std::uint64_t output_tokens;  // Of all requests.
    double last_s;                // Arrival of the last request.
    double judged_until_s;
    std::size_t running_blocks;  // Blocks of all running requests.
  };

  void load(const TrialTraffic& traffic) override { traffic_ = traffic; }
  TrialOutcome attempt(std::span<const std::uint32_t> replicas) override {
    attempts.push_back({{replicas.begin(), replicas.end()},
                        traffic_.rate_factor,
                        core::to_seconds(traffic_.judged_from),
                        traffic_.requests.size(),
                        traffic_.requests.empty() ? -1.0 : core::to_seconds(traffic_.requests.front().arrival),
                        traffic_.running.size(),
                        traffic_.earlier.size(),
                        0,
                        traffic_.requests.empty() ? -1.0 : core::to_seconds(traffic_.requests.back().arrival),
                        core::to_seconds(traffic_.judged_until),
                        0});
    for (const RunningRequest& running : traffic_.running) attempts.back().running_blocks += running.block_ids.size();
    for (const signals::RecentRequest& request : traffic_.requests)
      attempts.back().output_tokens += request.output_tokens;
    const std::uint32_t scarcest = *std::min_element(replicas.begin(), replicas.end());
    const double share = std::min(1.0, share_(scarcest / traffic_.rate_factor, traffic_.judged_from));
    const auto judged = static_cast<double>(
        std::count_if(traffic_.requests.begin(), traffic_.requests.end(), [&](const signals::RecentRequest& request) {
          return request.arrival >= traffic_.judged_from && request.arrival < traffic_.judged_until;
        }));
    const TrialCounts counts{judged * traffic_.rate_factor, judged * traffic_.rate_factor * share};
    return {counts, counts, counts, {}};
  }
  void correct(std::span<const EngineCorrection>) override {}

  std::vector<Attempt> attempts;

 private:
  Share share_;
  TrialTraffic traffic_;
};

// Evenly spaced arrivals, none at the ends.
inline void add_requests(std::vector<signals::RecentRequest>& requests, double from_s, double to_s, double rate_per_s) {
  const auto count = static_cast<int>(std::lround((to_s - from_s) * rate_per_s));
  for (int i = 0; i < count; ++i)
    requests.push_back({at_s(from_s + (i + 0.5) / rate_per_s), 500, 100, 50.0F, 10.0F, {}});
}

// Of the requests that have arrived by then.
inline signals::Observation observed_at(double now, const std::vector<signals::RecentRequest>& requests) {
  signals::Observation observation;
  observation.now = at_s(now);
  const auto end = std::partition_point(requests.begin(), requests.end(),
                                        [&](const auto& request) { return request.arrival <= observation.now; });
  observation.recent = {requests.begin(), end};
  return observation;
}

inline void advance_at(std::initializer_list<double> times, const std::vector<signals::RecentRequest>& requests,
                       TrafficMemory& memory) {
  for (const double now : times) {
    memory.begin_tick(observed_at(now, requests));
    memory.advance();
  }
}

// Outputs of 50 or, one in five, 2000 tokens at 20 ms each: short ones end after a second, long ones run for 40 s.
inline std::vector<signals::RecentRequest> long_tailed(double until_s, double rate_per_s, double now_s) {
  std::vector<signals::RecentRequest> requests;
  core::RandomStream random{3};
  for (double at = 0.5 / rate_per_s; at < until_s; at += 1.0 / rate_per_s) {
    const std::uint32_t output = random.uniform() < 0.2 ? 2000 : 50;
    const bool ended = at + 0.05 + 0.02 * (output - 1) <= now_s;
    requests.push_back({at_s(at), 500, ended ? output : 0, 50.0F, ended ? 20.0F : -1.0F, {}});
  }
  return requests;
}

inline constexpr double kMeanOutput = 0.2 * 2000 + 0.8 * 50;

}  // namespace penstock::planner::testing
