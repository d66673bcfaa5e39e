#include "planner/penstock/traffic_memory.h"

#include <algorithm>
#include <cmath>

#include "planner/penstock/kept.h"

namespace penstock::planner {
namespace {

constexpr double kTwentieths = 20.0;

}  // namespace

void TrafficMemory::begin_tick(const signals::Observation& observation) {
  recent_ = observation.recent;
  now_ = observation.now;
  served_ = 0;
}

void TrafficMemory::advance() {
  if (now_ < open_.from) {  // The clock went back, so the times of the slices have no meaning.
    closed_.clear();
    open_.from = now_;
  }
  open_.from = std::max(open_.from, now_ - options_.length);
  open_.to = now_;
  open_.outcomes.clear();
  open_.requests = between(open_.from, open_.to).size();
  const core::Duration length = open_.to - open_.from;
  const bool full = open_.requests >= options_.slice_requests || length >= options_.slice_most;
  if (length >= options_.slice_least && full) {
    closed_.push_back(std::move(open_));
    open_ = Slice{now_, now_};
  }
  const auto forgotten = [&](const Slice& oldest) {
    if (oldest.from < now_ - options_.length) return true;
    return oldest.from < now_ - options_.length_least && remembered() - oldest.requests >= options_.enough_requests;
  };
  while (!closed_.empty() && forgotten(closed_.front())) closed_.pop_front();
}

void TrafficMemory::restart(core::Instant from) {
  closed_.clear();
  open_ = Slice{from, now_};
}

std::span<const signals::RecentRequest> TrafficMemory::between(core::Instant from, core::Instant to) const {
  const auto at = [&](core::Instant moment) {
    return std::partition_point(recent_.begin(), recent_.end(),
                                [&](const signals::RecentRequest& request) { return request.arrival <= moment; });
  };
  return {at(from), at(to)};
}

const TrialOutcome* TrafficMemory::known(const std::map<Fleet, TrialOutcome>& outcomes, const Fleet& fleet) {
  if (const auto found = outcomes.find(fleet); found != outcomes.end()) return &found->second;
  if (fleet.size() != 1) return nullptr;
  const auto larger = outcomes.upper_bound(fleet);
  if (larger != outcomes.end() && larger->second.all.attainment() < kHardlyHalf) return &larger->second;
  for (auto smaller = larger; smaller != outcomes.begin();)
    if ((--smaller)->second.all.attainment() > kAllKept) return &smaller->second;
  return nullptr;
}

std::optional<TrialOutcome> TrafficMemory::outcome_at(const Fleet& fleet, double load) {
  const int twentieths = std::max(1, static_cast<int>(std::lround(load * kTwentieths)));
  TrialOutcome sum;
  const auto add = [&](Slice& slice) {
    if (slice.requests == 0 || !counts(slice)) return true;
    std::map<Fleet, TrialOutcome>& outcomes = slice.outcomes[twentieths];
    const TrialOutcome* outcome = known(outcomes, fleet);
    if (outcome == nullptr) {
      if (served_ >= options_.tick_requests) return false;
      outcome = &outcomes.emplace(fleet, attempt(slice, fleet, twentieths / kTwentieths)).first->second;
    }
    sum += *outcome;
    return true;
  };
  if (!add(open_)) return std::nullopt;
  for (auto slice = closed_.rbegin(); slice != closed_.rend(); ++slice)
    if (!add(*slice)) return std::nullopt;
  return sum;
}

TrialOutcome TrafficMemory::attempt(const Slice& slice, const Fleet& fleet, double load) {
  const auto warm_up = core::Duration{static_cast<std::int64_t>(
      options_.warm_up * static_cast<double>(std::max(slice.to - slice.from, options_.slice_least).count()))};
  TrialTraffic traffic;
  traffic.requests = between(slice.from - warm_up, slice.to);
  traffic.judged_from = slice.from;
  traffic.rate_factor = load;
  Fleet serving = fleet;
  const double crowd =
      load * static_cast<double>(traffic.requests.size()) / static_cast<double>(options_.slice_requests);
  if (fleet.size() == 1 && crowd > 1.0 && fleet.front() > options_.replicas_least) {
    serving.front() = std::max(options_.replicas_least, static_cast<std::uint32_t>(std::floor(fleet.front() / crowd)));
    traffic.rate_factor = load * serving.front() / fleet.front();
  }
  // A slice that is still too long is cut to its end, a part of which is warm-up.
  const auto most = static_cast<std::size_t>(2.0 * static_cast<double>(options_.slice_requests) / traffic.rate_factor);
  if (traffic.requests.size() > most) {
    traffic.requests = traffic.requests.last(most);
    const auto warm = static_cast<std::size_t>(options_.warm_up / (1.0 + options_.warm_up) * static_cast<double>(most));
    traffic.judged_from = std::max(traffic.judged_from, traffic.requests[warm].arrival);
  }
  served_ += static_cast<std::size_t>(traffic.rate_factor * static_cast<double>(traffic.requests.size()));
  trials_->load(traffic);
  const TrialOutcome outcome = trials_->attempt(serving);
  return outcome.all.requests > 0.0 ? outcome.times(static_cast<double>(slice.requests) / outcome.all.requests)
                                    : outcome;
}

void TrafficMemory::forget_outcomes() {
  open_.outcomes.clear();
  for (Slice& slice : closed_) slice.outcomes.clear();
}

std::size_t TrafficMemory::remembered() const {
  std::size_t requests = open_.requests;
  for (const Slice& slice : closed_) requests += slice.requests;
  return requests;
}

std::size_t TrafficMemory::requests() const {
  std::size_t requests = open_.requests;
  for (const Slice& slice : closed_) requests += counts(slice) ? slice.requests : 0;
  return requests;
}

double TrafficMemory::rate() const {
  core::Instant from = open_.from;
  for (auto slice = closed_.rbegin(); slice != closed_.rend() && counts(*slice); ++slice) from = slice->from;
  const double seconds = core::to_seconds(open_.to - from);
  return seconds > 0.0 ? static_cast<double>(requests()) / seconds : 0.0;
}

}  // namespace penstock::planner
