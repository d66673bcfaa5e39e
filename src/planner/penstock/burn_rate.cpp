#include "planner/penstock/burn_rate.h"

#include <algorithm>

#include "planner/penstock/kept.h"

namespace penstock::planner {
namespace {

constexpr core::Duration kSpan = std::chrono::minutes{1};

bool is_over(const signals::RecentRequest& request) {
  return request.end != signals::RequestEnd::kNone || request.e2e_ms >= 0.0F || request.itl_ms >= 0.0F;
}

// The first request that arrived then or later.
std::span<const signals::RecentRequest>::iterator first_at(std::span<const signals::RecentRequest> recent,
                                                           core::Instant arrival) {
  return std::partition_point(recent.begin(), recent.end(),
                              [&](const signals::RecentRequest& request) { return request.arrival < arrival; });
}

}  // namespace

bool is_judged(const signals::RecentRequest& request, const signals::SloPolicy& slo) {
  return request.end == signals::RequestEnd::kFailed || request.streamed ||
         slo.target_at(request.target).e2e.has_value();
}

bool missed(const signals::RecentRequest& request, const signals::SloPolicy& slo, core::Instant now) {
  if (request.end == signals::RequestEnd::kFailed) return true;
  const signals::SloTarget& target = slo.target_at(request.target);
  const bool ended = request.e2e_ms >= 0.0F;
  if (target.e2e && ended && static_cast<double>(request.e2e_ms) > core::to_milliseconds(*target.e2e)) return true;
  if (target.e2e && !ended && now - request.arrival > *target.e2e) return true;
  if (!request.streamed) return false;
  if (request.ttft_ms < 0.0F) return now - request.arrival > target.ttft;
  return static_cast<double>(request.ttft_ms) > core::to_milliseconds(target.ttft) ||
         static_cast<double>(request.itl_ms) > core::to_milliseconds(target.itl);
}

void BurnRate::observe(const signals::Observation& observation, double best) {
  const core::Instant until = observation.now - options_.judged_after;
  if (observation.now < now_) {  // The clock went back, so stored times have no meaning.
    spans_.clear();
    open_.clear();
    judged_to_ = until;
  }
  now_ = observation.now;
  count_ended(observation.recent);
  const auto first = std::partition_point(observation.recent.begin(), observation.recent.end(),
                                          [&](const auto& request) { return request.arrival <= judged_to_; });
  for (auto request = first; request != observation.recent.end() && request->arrival <= until; ++request) {
    if (!is_judged(*request, slo_)) continue;
    const bool has_missed = missed(*request, slo_, now_);
    count(*request,
          {1.0, has_missed ? 1.0 : 0.0, 1.0 - best + allowed_misses(best, slo_.goal_at(request->target)), 1.0 - best});
    if (has_missed || is_over(*request)) continue;
    const auto number = static_cast<std::uint64_t>(request - first_at(observation.recent, request->arrival));
    open_.push_back({request->arrival, number});
  }
  judged_to_ = std::max(judged_to_, until);
  while (!spans_.empty() && spans_.front().at <= now_ - options_.long_window) spans_.pop_front();
}

void BurnRate::count(const signals::RecentRequest& request, const BudgetUse& use) {
  if (spans_.empty() || spans_.back().at <= now_ - kSpan) spans_.push_back(Span{{}, now_});
  if (uses_.size() <= request.target) uses_.resize(request.target + std::size_t{1});
  spans_.back() += use;
  uses_[request.target] += use;
}

// What is no longer remembered counts as kept.
void BurnRate::count_ended(std::span<const signals::RecentRequest> recent) {
  std::erase_if(open_, [&](const Open& open) {
    const auto first = first_at(recent, open.arrival);
    if (static_cast<std::uint64_t>(recent.end() - first) <= open.number) return true;
    const signals::RecentRequest& request = *(first + static_cast<std::ptrdiff_t>(open.number));
    if (request.arrival != open.arrival) return true;
    const bool has_missed = missed(request, slo_, now_);
    if (has_missed) count(request, {0.0, 1.0, 0.0, 0.0});
    return has_missed || is_over(request);
  });
}

double BurnRate::over(core::Duration window) const {
  double missed = 0.0, allowed = 0.0;
  for (auto span = spans_.rbegin(); span != spans_.rend() && span->at > now_ - window; ++span) {
    missed += span->missed;
    allowed += span->allowed;
  }
  return allowed > 0.0 ? missed / allowed : 0.0;
}

bool BurnRate::burning(double misses) const {
  return over_short_window() > misses * options_.short_burns && over_long_window() > misses * options_.long_burns;
}

}  // namespace penstock::planner
