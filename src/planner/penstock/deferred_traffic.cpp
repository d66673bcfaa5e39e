#include "planner/penstock/deferred_traffic.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "core/random.h"
#include "planner/penstock/load_history.h"

namespace penstock::planner {
namespace {

constexpr double kHashRange = 18'446'744'073'709'551'616.0;  // 2^64

// `same`: number of the request among those with the same arrival.
core::Instant spread_arrival(const signals::RecentRequest& request, std::uint64_t same, core::Duration window_most) {
  const auto at = static_cast<std::uint64_t>(request.arrival.time_since_epoch().count());
  const double drawn = static_cast<double>(core::mix64(core::mix64(at) + same)) / kHashRange;
  const core::Duration window = std::min(request.completion_window, window_most);
  return request.arrival + core::from_seconds(drawn * core::to_seconds(window));
}

bool arrives_earlier(const signals::RecentRequest& a, const signals::RecentRequest& b) { return a.arrival < b.arrival; }

bool is_deferrable(const signals::RecentRequest& request) { return request.completion_window > core::Duration{}; }

}  // namespace

const signals::Observation& DeferredTraffic::spread(const signals::Observation& observation) {
  const core::Instant now = observation.now;
  const bool defers = std::any_of(observation.recent.begin(), observation.recent.end(), is_deferrable);
  if (observation.pools.empty() || (!defers && !begun_)) return observation;
  requests_.clear();
  moved_.clear();
  core::Instant arrival = core::Instant::min();
  std::uint64_t same = 0;
  for (const signals::RecentRequest& request : observation.recent) {
    same = request.arrival == arrival ? same + 1 : 0;
    arrival = request.arrival;
    if (!is_deferrable(request)) {
      requests_.push_back(request);
      continue;
    }
    signals::RecentRequest& moved = moved_.emplace_back(request);
    moved.arrival = spread_arrival(request, same, window_most_);
    if (moved.arrival > now) moved_.pop_back();
  }
  std::stable_sort(moved_.begin(), moved_.end(), arrives_earlier);
  const auto middle = static_cast<std::ptrdiff_t>(requests_.size());
  requests_.insert(requests_.end(), moved_.begin(), moved_.end());
  std::inplace_merge(requests_.begin(), requests_.begin() + middle, requests_.end(), arrives_earlier);

  spread_ = observation;
  spread_.recent = requests_;
  const signals::FleetTraffic decoded = signals::exit_traffic(observation);
  const std::uint64_t output = decoded.output_tokens_total;
  const std::uint64_t arrived_before =
      std::exchange(arrivals_seen_, signals::entry_traffic(observation).arrivals_total);
  if (arrivals_seen_ < arrived_before) {  // The counters of another process.
    begun_ = false;
    arrivals_ = input_tokens_ = output_tokens_ = 0;
  }
  if (!begun_ || now < counted_to_) {
    begun_ = true;
  } else {
    std::uint64_t arrivals = 0, tokens = 0, arrived = 0, arrived_tokens = 0;
    for (auto request = requests_.rbegin(); request != requests_.rend() && request->arrival > counted_to_; ++request) {
      ++arrivals;
      tokens += request->input_tokens;
    }
    for (auto request = observation.recent.rbegin();
         request != observation.recent.rend() && request->arrival > counted_to_; ++request) {
      ++arrived;
      arrived_tokens += request->input_tokens;
    }
    arrivals_ += arrivals - arrived;
    input_tokens_ += tokens - arrived_tokens;
    // Engines do not report whose tokens they generate.
    const double generated = static_cast<double>(arrivals) * mean_output_tokens(decoded.last_minute);
    output_tokens_ += static_cast<std::uint64_t>(generated) - (output - output_seen_);
  }
  counted_to_ = now;
  output_seen_ = output;
  // The totals of the fleet count, so that any pool of the kind may have the difference.
  signals::PoolObservation &entry = spread_.pools.front(), &exit = spread_.pools.back();
  entry.arrivals_total += arrivals_;
  entry.input_tokens_total += input_tokens_;
  exit.output_tokens_total += output_tokens_;
  return spread_;
}

}  // namespace penstock::planner
