#include "planner/policies/dynamo_traffic.h"

#include <algorithm>
#include <array>

namespace penstock::planner {

namespace {

constexpr core::Duration kMinute = std::chrono::minutes{1};

}  // namespace

void DynamoHitRatio::observe(const signals::PoolObservation& pool) {
  std::map<std::uint32_t, Counters> seen;
  for (const signals::ReplicaObservation& replica : pool.replicas) {
    if (!replica.sample || !replica.sample->prompt_tokens_total || !replica.sample->prefix_hit_tokens_total) continue;
    const Counters now{*replica.sample->prompt_tokens_total, *replica.sample->prefix_hit_tokens_total};
    const auto before = seen_.find(replica.replica);
    const Counters last = before == seen_.end() ? Counters{} : before->second;
    // Counters start again with the engine.
    if (now.prompt >= last.prompt && now.hit >= last.hit) {
      prompt_ += now.prompt - last.prompt;
      hit_ += now.hit - last.hit;
    }
    seen[replica.replica] = now;
  }
  seen_ = std::move(seen);
}

std::optional<double> DynamoHitRatio::take() {
  if (prompt_ == 0) return std::nullopt;
  const double ratio = std::min(1.0, static_cast<double>(hit_) / static_cast<double>(prompt_));
  prompt_ = hit_ = 0;
  return ratio;
}

forecast::PredictorOptions DynamoForecast::options() {
  forecast::PredictorOptions options;
  options.interval = kMinute;  // At which the variances of the model are those of a step.
  options.q_level = 1.0;
  options.q_trend = 0.1;
  options.r = 10.0;
  options.initial_variance = 1000.0;
  return options;
}

void DynamoForecast::add(double value) {
  if (points_ == 0 && value <= 0.0) return;
  last_ = value;
  model_.update({++points_, {}, value, false});
}

double DynamoForecast::next() const {
  if (!model_.ready()) return last_;
  std::array<double, 1> path{};
  model_.expect(path);
  return std::max(0.0, path[0]);
}

void DynamoTraffic::begin(core::Instant now) { begun_at_ = minute_at_ = now; }

void DynamoTraffic::observe(core::Instant now, const signals::TrafficWindow& last_minute) {
  if (now - minute_at_ < kMinute) return;
  minute_at_ = now;
  arrivals_ += last_minute.arrivals;
  input_tokens_ += last_minute.input_tokens;
  completed_ += last_minute.completed;
  output_tokens_ += last_minute.completed_output_tokens;
}

void DynamoTraffic::close(core::Instant now) {
  length_s_ = core::to_seconds(now - begun_at_);
  requests_.add(static_cast<double>(arrivals_));
  if (arrivals_ > 0) last_input_ = static_cast<double>(input_tokens_) / static_cast<double>(arrivals_);
  if (completed_ > 0) last_output_ = static_cast<double>(output_tokens_) / static_cast<double>(completed_);
  // An idle interval repeats the lengths of the one before.
  if (last_input_) input_.add(*last_input_);
  if (last_output_) output_.add(*last_output_);
  arrivals_ = input_tokens_ = completed_ = output_tokens_ = 0;
  begin(now);
}

double DynamoTraffic::requests_per_s() const { return length_s_ > 0.0 ? requests_.next() / length_s_ : 0.0; }

}  // namespace penstock::planner
