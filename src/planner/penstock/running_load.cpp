#include "planner/penstock/running_load.h"

#include <algorithm>

namespace penstock::planner {
namespace {

// Mean time from the arrival to the end of a request of the last minute; empty without ended requests.
std::optional<double> mean_duration_s(const signals::TrafficWindow& traffic) {
  if (traffic.e2e.count > 0) return traffic.e2e.mean_ms / 1e3;
  if (traffic.ttft.count == 0) return std::nullopt;
  const double tokens = traffic.completed == 0 ? 0.0
                                               : static_cast<double>(traffic.completed_output_tokens) /
                                                     static_cast<double>(traffic.completed);
  return (traffic.ttft.mean_ms + (traffic.itl.count > 0 ? traffic.itl.mean_ms * tokens : 0.0)) / 1e3;
}

}  // namespace

void RunningLoad::observe(core::Instant at, const signals::PoolObservation& pool, core::Duration window) {
  Entry entry{at};
  entry.waited = pool.unrouted_requests > 0;
  std::uint32_t most = 0;
  for (const signals::ReplicaObservation& replica : pool.replicas) {
    if (replica.state != signals::ReplicaState::kReady || !replica.sample) continue;
    most = std::max(most, replica.sample->running_requests);
    entry.waited = entry.waited || replica.sample->queued_requests > 0;
  }
  concurrency_ = std::max(concurrency_, most);
  entry.load = most;
  const signals::TrafficWindow& traffic = pool.last_minute;
  if (traffic.arrivals > 0 && traffic.length > core::Duration{} && pool.ready > 0) {
    const double rate = static_cast<double>(traffic.arrivals) / core::to_seconds(traffic.length);
    const std::optional<double> duration_s = mean_duration_s(traffic);
    entry.unknown = !duration_s;
    entry.load = std::max(entry.load, rate * duration_s.value_or(0.0) / pool.ready);
  }
  entries_.push_back(entry);
  while (entries_.size() > 1 && entries_.front().at <= at - window) {
    entries_.pop_front();
    covers_window_ = true;
  }
}

bool RunningLoad::has_waited() const {
  return std::any_of(entries_.begin(), entries_.end(), [](const Entry& entry) { return entry.waited; });
}

std::optional<double> RunningLoad::share() const {
  double most = 0.0;
  for (const Entry& entry : entries_) {
    if (entry.waited || entry.unknown) return std::nullopt;
    most = std::max(most, entry.load);
  }
  if (!covers_window_) return std::nullopt;
  if (most == 0.0) return 0.0;
  return concurrency_ == 0 ? std::nullopt : std::optional{most / concurrency_};
}

}  // namespace penstock::planner
