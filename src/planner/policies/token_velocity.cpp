#include <algorithm>
#include <cmath>
#include <deque>

#include "core/state_archive.h"
#include "planner/bounds.h"
#include "planner/policies/policies.h"
#include "planner/poolwise_policy.h"
#include "planner/windows.h"

namespace penstock::planner {

namespace {

constexpr core::Duration kVelocityTick = std::chrono::seconds{5};
constexpr core::Duration kVelocityWindow = std::chrono::seconds{15};
constexpr core::Duration kVelocityHold = std::chrono::minutes{5};  // As an HPA's stabilisation.
constexpr core::Duration kVelocityHoldMost = std::chrono::hours{1};

// Counters of the pool at one moment.
struct Counted {
  core::Instant at;
  std::uint64_t arrivals = 0, input_tokens = 0;
  void archive(core::StateArchive& state) { state.values_of(at, arrivals, input_tokens); }
};

struct VelocityState {
  std::deque<Counted> counted;
  TimedValues needed{kVelocityHoldMost};
  void archive(core::StateArchive& state) { state("token-velocity", counted, needed); }
};

class TokenVelocity final : public PoolwisePolicy<VelocityState> {
 public:
  explicit TokenVelocity(const PolicyContext& context)
      : PoolwisePolicy("token-velocity", kVelocityTick),
        prefill_velocity_(context.capacity.input_tokens_per_s),
        decode_velocity_(context.capacity.output_tokens_per_s),
        factor_(1.0 + context.settings.get("headroom", 0.0)),
        hold_(core::from_seconds(context.settings.get("hold", core::to_seconds(kVelocityHold)))) {}

 protected:
  PoolDecision decide_pool(core::Instant now, const signals::PoolObservation& pool, VelocityState& state) override {
    const signals::TrafficWindow& traffic = pool.last_minute;
    if (traffic.length <= core::Duration{}) return hold(pool, Reason::kNoData);
    const Counted rates = add(now, pool, state);
    const double elapsed_s = core::to_seconds(now - rates.at);
    if (elapsed_s <= 0.0) return hold(pool, Reason::kNoData);

    double needed = 0.0;
    std::vector<Evidence> evidence;
    const auto add_stage = [&](const char* rate_name, double rate, const char* velocity_name, double velocity) {
      needed = std::max(needed, std::ceil(factor_ * rate / velocity - 1e-9));
      evidence.push_back({rate_name, rate, "tokens/s"});
      evidence.push_back({velocity_name, velocity, "tokens/s"});
    };
    if (pool.role != signals::Role::kDecode)
      add_stage("input_token_rate", static_cast<double>(rates.input_tokens) / elapsed_s, "prefill_velocity",
                prefill_velocity_);
    if (pool.role != signals::Role::kPrefill) {
      const double answer = traffic.completed == 0 ? 0.0
                                                   : static_cast<double>(traffic.completed_output_tokens) /
                                                         static_cast<double>(traffic.completed);
      // What arrives will be decoded; what was generated is the rate of the past.
      const double arriving = answer * static_cast<double>(rates.arrivals) / elapsed_s;
      const double generated = static_cast<double>(traffic.output_tokens) / core::to_seconds(traffic.length);
      add_stage("output_token_rate", traffic.completed == 0 ? generated : arriving, "decode_velocity",
                decode_velocity_);
    }
    state.needed.add(now, needed);
    const double greatest = state.needed.max(now, hold_).value_or(needed);
    const bool waits = needed < pool.target_replicas && greatest > needed;
    const double proposal = waits ? std::min<double>(greatest, pool.target_replicas) : needed;
    Reason reason = Reason::kWithinTolerance;
    if (proposal > pool.target_replicas) reason = Reason::kLoadAboveTarget;
    if (proposal < pool.target_replicas) reason = Reason::kLoadBelowTarget;
    if (waits && proposal == pool.target_replicas) reason = Reason::kStabilized;
    PoolDecision decision = decide_bounded(pool, proposal, reason);
    if (waits && decision.limited_by == Limit::kNone) decision.limited_by = Limit::kStabilization;
    decision.evidence = std::move(evidence);
    return decision;
  }

 private:
  // Returns what was counted since the time in `at`, which is at most a window ago. A counter that went back starts
  // again.
  static Counted add(core::Instant now, const signals::PoolObservation& pool, VelocityState& state) {
    auto& counted = state.counted;
    if (!counted.empty() &&
        (pool.arrivals_total < counted.back().arrivals || pool.input_tokens_total < counted.back().input_tokens))
      counted.clear();
    counted.push_back({now, pool.arrivals_total, pool.input_tokens_total});
    while (counted.size() > 2 && counted[1].at <= now - kVelocityWindow) counted.pop_front();
    const Counted& first = counted.front();
    return {first.at, pool.arrivals_total - first.arrivals, pool.input_tokens_total - first.input_tokens};
  }

  double prefill_velocity_, decode_velocity_;
  double factor_;
  core::Duration hold_;
};

}  // namespace

std::unique_ptr<Policy> make_token_velocity(const PolicyContext& context) {
  return std::make_unique<TokenVelocity>(context);
}

}  // namespace penstock::planner
