#include "planner/penstock/load_history.h"

#include <algorithm>
#include <utility>

namespace penstock::planner {
namespace {

constexpr core::Duration kPeak = std::chrono::seconds{10};
constexpr core::Duration kRecent = std::chrono::minutes{20};
constexpr core::Duration kIntervalMost = std::chrono::minutes{2};
constexpr double kOutputUnknown = 200.0;  // Assumed output length in tokens until a request has ended.

}  // namespace

double mean_output_tokens(const signals::TrafficWindow& window) {
  return window.completed == 0
             ? kOutputUnknown
             : static_cast<double>(window.completed_output_tokens) / static_cast<double>(window.completed);
}

std::optional<LoadMinute> LoadHistory::observe(core::Instant now, const signals::FleetTraffic& traffic,
                                               std::uint64_t generated_tokens) {
  const core::Instant from = std::exchange(seen_at_, now);
  const bool steady = now > from && now - from < kIntervalMost && traffic.arrivals_total >= arrivals_ &&
                      traffic.input_tokens_total >= input_tokens_ && generated_tokens >= generated_tokens_;
  const auto arrivals = static_cast<double>(traffic.arrivals_total - std::exchange(arrivals_, traffic.arrivals_total));
  const auto input =
      static_cast<double>(traffic.input_tokens_total - std::exchange(input_tokens_, traffic.input_tokens_total));
  const auto generated = static_cast<double>(generated_tokens - std::exchange(generated_tokens_, generated_tokens));
  if (!steady) {
    recent_.clear();
    minute_ = {};
    minute_from_ = now;
    return std::nullopt;
  }
  const signals::TrafficWindow& window = traffic.last_minute;
  const double length = mean_output_tokens(window);
  const double output = generated_tokens > 0 ? generated : length * arrivals;
  recent_.push_back({from, now, input + kOutputTokenLoad * output});
  while (recent_.front().to <= now - kRecent) recent_.pop_front();
  minute_.peak = std::max(minute_.peak, latest());
  minute_.mean += recent_.back().tokens;
  minute_.requests += arrivals;
  if (now < minute_from_ + core::kMinute) return std::nullopt;
  minute_.mean /= core::to_seconds(now - minute_from_);
  minute_from_ = now;
  return std::exchange(minute_, {});
}

// Load of the last ten seconds, or of the last interval if that is longer.
double LoadHistory::latest() const {
  const core::Instant now = recent_.back().to;
  double tokens = 0.0;
  core::Instant from = now;
  for (auto interval = recent_.rbegin(); interval != recent_.rend() && interval->to > now - kPeak; ++interval) {
    tokens += interval->tokens;
    from = interval->from;
  }
  return tokens / core::to_seconds(std::max(now - from, kPeak));
}

double LoadHistory::peak(core::Instant from, core::Instant to) const {
  double largest = 0.0, tokens = 0.0;
  auto oldest = recent_.begin();
  for (const Interval& interval : recent_) {
    tokens += interval.tokens;
    for (; oldest->to <= interval.to - kPeak; ++oldest) tokens -= oldest->tokens;
    if (interval.to > from && interval.to <= to)
      largest = std::max(largest, tokens / core::to_seconds(std::max(interval.to - oldest->from, kPeak)));
  }
  return largest;
}

}  // namespace penstock::planner
