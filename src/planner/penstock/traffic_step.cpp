#include "planner/penstock/traffic_step.h"

#include <algorithm>
#include <cmath>

namespace penstock::planner {
namespace {

constexpr core::Duration kBefore = std::chrono::minutes{1};  // Traffic that must be known before a step.
// Standard deviations of a Poisson count: one in a million intervals by chance.
constexpr double kDeviations = 5.0;

bool is_step(std::span<const signals::RecentRequest> recent, core::Instant now, core::Duration length) {
  const auto begin_of = [&](core::Instant moment) {
    return std::partition_point(recent.begin(), recent.end(),
                                [&](const signals::RecentRequest& request) { return request.arrival <= moment; });
  };
  auto to = begin_of(now), from = begin_of(now - length);
  const auto arrived = static_cast<double>(to - from);
  if (arrived < static_cast<double>(kStepRequests)) return false;
  // Intervals overlap by half, so that a burst that straddles two of them counts as well.
  double most = 0.0;
  for (core::Instant end = now - length; from != recent.begin() && arrived > 2.0 * most; end -= length / 2) {
    to = begin_of(end);
    from = begin_of(end - length);
    most = std::max(most, static_cast<double>(to - from));
  }
  return is_far_more(arrived, most);
}

}  // namespace

bool is_far_more(double requests, double usual) {
  return requests > 2.0 * usual && requests > usual + kDeviations * std::sqrt(std::max(1.0, usual));
}

std::optional<core::Instant> traffic_step(std::span<const signals::RecentRequest> recent, core::Instant now) {
  if (recent.empty() || recent.front().arrival > now - kBefore) return std::nullopt;
  for (const int seconds : {3, 5, 10, 20, 30}) {
    const core::Duration length = std::chrono::seconds{seconds};
    if (is_step(recent, now, length)) return now - length;
  }
  return std::nullopt;
}

}  // namespace penstock::planner
