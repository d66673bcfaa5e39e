#include "planner/penstock/headroom.h"

#include <algorithm>
#include <cmath>

namespace penstock::planner {
namespace {

constexpr double kStep = 0.05;
constexpr std::uint32_t kLearnEvery = 10;  // Minutes.
constexpr double kOutputWeight = 6.0;      // Weight of an output token relative to a prompt token.
constexpr double kOutputUnknown = 200.0;   // Assumed response length in tokens until a request has ended.

constexpr int kLongerHold = 3;          // Multiple of the usual time for which a fleet stays large.
constexpr double kWorthHolding = 0.97;  // Share of the load carried below which the longer hold is worth it.
constexpr double kLowerBurn = 0.5, kRaiseBurn = 1.0;
constexpr double kLowered = 0.01, kRaised = 0.05;          // Change of the share a minute.
constexpr double kLeastShare = 0.2, kGreatestShare = 1.5;  // Of the learned excess.

std::size_t minutes(core::Duration duration) { return static_cast<std::size_t>(duration / core::kMinute); }

}  // namespace

void Headroom::observe(core::Instant now, const signals::PoolObservation& pool, std::uint64_t generated_tokens) {
  const core::Duration passed = now - minute_from_;
  const bool went_back = passed < core::Duration{};  // The clock went back.
  if (passed < core::kMinute && !went_back) return;
  const bool steady = !went_back && passed < 2 * core::kMinute && pool.arrivals_total >= arrivals_ &&
                      pool.input_tokens_total >= input_tokens_ && generated_tokens >= generated_tokens_;
  const auto arrivals = static_cast<double>(pool.arrivals_total - arrivals_);
  const auto input = static_cast<double>(pool.input_tokens_total - input_tokens_);
  const signals::TrafficWindow& window = pool.last_minute;
  const double answer = window.completed == 0 ? kOutputUnknown
                                              : static_cast<double>(window.completed_output_tokens) /
                                                    static_cast<double>(window.completed);
  const auto generated = static_cast<double>(generated_tokens - generated_tokens_);
  minute_from_ = now;
  generated_tokens_ = generated_tokens;
  arrivals_ = pool.arrivals_total;
  input_tokens_ = pool.input_tokens_total;
  if (!steady) return;
  const double output = generated_tokens > 0 ? generated : answer * arrivals;
  minutes_.push_back({(input + kOutputWeight * output) / core::to_seconds(passed), arrivals});
  if (minutes_.size() > minutes(options_.history)) minutes_.pop_front();
  if (++unlearned_ >= kLearnEvery && known()) learn();
}

bool Headroom::known() const { return minutes_.size() >= minutes(options_.history_least); }

void Headroom::refine(double burn_rate, bool may_lower) {
  if (share_ && burn_rate > kRaiseBurn) share_ = std::min(kGreatestShare, *share_ + kRaised);
  if (known() && may_lower && burn_rate < kLowerBurn) share_ = std::max(kLeastShare, share_.value_or(1.0) - kLowered);
}

double Headroom::refined() const {
  if (!share_) return std::max(learned_, options_.standard);
  return 1.0 + *share_ * (held_ - 1.0);
}

Headroom::Course Headroom::course(double headroom, std::size_t hold) const {
  const auto lag =
      static_cast<std::size_t>(std::ceil(static_cast<double>(options_.lag.count()) / core::kMinute.count()));
  double requests = 0.0, overrun = 0.0, queue = 0.0, all = 0.0;
  std::deque<std::pair<std::size_t, double>> largest;  // Minutes within the fleet's window, with decreasing loads.
  for (std::size_t t = lag; t < minutes_.size(); ++t) {
    const std::size_t known = t - lag;
    while (!largest.empty() && largest.back().second <= minutes_[known].load) largest.pop_back();
    largest.emplace_back(known, minutes_[known].load);
    while (largest.front().first + hold < known) largest.pop_front();
    const double carried = headroom * largest.front().second;
    queue = std::max(0.0, queue + minutes_[t].load - carried);
    all += carried;
    requests += minutes_[t].requests;
    if (queue > 0.0) overrun += minutes_[t].requests;
  }
  return {requests > 0.0 ? overrun / requests : 0.0,
          all / static_cast<double>(std::max<std::size_t>(1, minutes_.size()))};
}

std::pair<double, double> Headroom::smallest(core::Duration hold) const {
  const double most_lost = options_.budget_share * (1.0 - options_.goal);
  double headroom = options_.least;
  Course tried = course(headroom, minutes(hold));
  while (headroom < options_.most && tried.overrun > most_lost) {
    headroom = std::min(headroom + kStep, options_.most);
    tried = course(headroom, minutes(hold));
  }
  return {headroom, tried.carried};
}

void Headroom::learn() {
  unlearned_ = 0;
  const auto [usual, carried] = smallest(options_.hold);
  const auto [held, carried_longer] = smallest(kLongerHold * options_.hold);
  const bool longer = carried_longer < kWorthHolding * carried;
  learned_ = usual;
  held_ = longer ? held : usual;
  hold_ = longer ? kLongerHold * options_.hold : options_.hold;
}

}  // namespace penstock::planner
