#include "planner/penstock/headroom.h"

#include <algorithm>
#include <cmath>

namespace penstock::planner {
namespace {

constexpr double kStep = 0.05;
constexpr std::uint32_t kLearnEvery = 10;  // Minutes.
constexpr double kOutputWeight = 6.0;      // Weight of an output token relative to a prompt token.
constexpr double kOutputUnknown = 200.0;   // Assumed response length in tokens until a request has ended.

std::size_t minutes(core::Duration duration) { return static_cast<std::size_t>(duration / core::kMinute); }

}  // namespace

void Headroom::observe(core::Instant now, const signals::PoolObservation& pool) {
  const core::Duration passed = now - minute_from_;
  const bool went_back = passed < core::Duration{};  // The clock went back.
  if (passed < core::kMinute && !went_back) return;
  const bool steady = !went_back && passed < 2 * core::kMinute && pool.arrivals_total >= arrivals_ &&
                      pool.input_tokens_total >= input_tokens_;
  const auto arrivals = static_cast<double>(pool.arrivals_total - arrivals_);
  const auto input = static_cast<double>(pool.input_tokens_total - input_tokens_);
  const signals::TrafficWindow& window = pool.last_minute;
  const double answer = window.completed == 0 ? kOutputUnknown
                                              : static_cast<double>(window.completed_output_tokens) /
                                                    static_cast<double>(window.completed);
  minute_from_ = now;
  arrivals_ = pool.arrivals_total;
  input_tokens_ = pool.input_tokens_total;
  if (!steady) return;
  minutes_.push_back({(input + kOutputWeight * answer * arrivals) / core::to_seconds(passed), arrivals});
  if (minutes_.size() > minutes(options_.history)) minutes_.pop_front();
  if (++unlearned_ >= kLearnEvery && known()) learn();
}

bool Headroom::known() const { return minutes_.size() >= minutes(options_.history_least); }

double Headroom::loss(double headroom) const {
  const auto lag =
      static_cast<std::size_t>(std::ceil(static_cast<double>(options_.lag.count()) / core::kMinute.count()));
  const std::size_t hold = minutes(options_.hold);
  double requests = 0.0, overrun = 0.0, queue = 0.0;
  std::deque<std::pair<std::size_t, double>> largest;  // Minutes within the fleet's window, with decreasing loads.
  for (std::size_t t = lag; t < minutes_.size(); ++t) {
    const std::size_t known = t - lag;
    while (!largest.empty() && largest.back().second <= minutes_[known].load) largest.pop_back();
    largest.emplace_back(known, minutes_[known].load);
    while (largest.front().first + hold < known) largest.pop_front();
    const double carried = headroom * largest.front().second;
    queue = std::max(0.0, queue + minutes_[t].load - carried);
    requests += minutes_[t].requests;
    if (queue > 0.0) overrun += minutes_[t].requests;
  }
  return requests > 0.0 ? overrun / requests : 0.0;
}

void Headroom::learn() {
  unlearned_ = 0;
  const double most_lost = options_.budget_share * (1.0 - options_.goal);
  learned_ = options_.least;
  while (learned_ < options_.most && loss(learned_) > most_lost) learned_ += kStep;
  learned_ = std::min(learned_, options_.most);
}

}  // namespace penstock::planner
