#include "planner/policies/policies.h"

#include <algorithm>
#include <cmath>

#include "core/state_archive.h"
#include "planner/bounds.h"
#include "planner/poolwise_policy.h"
#include "planner/samples.h"
#include "planner/windows.h"

namespace penstock::planner {

namespace {

constexpr core::Duration kResync = std::chrono::seconds{10};
constexpr core::Duration kWindow = std::chrono::seconds{180};
constexpr core::Duration kScaleDownCooldown = std::chrono::seconds{300};
constexpr double kUpTolerance = 0.1;
constexpr double kDownTolerance = 0.1;
constexpr double kApaMaxScaleUpRate = 2.0;
constexpr double kApaMaxScaleDownRate = 2.0;
constexpr double kKvUse = 0.5;
constexpr double kPrefillQueueTarget = 10.0;

struct ApaState {
  TimedValues metric{kWindow};
  TimedValues recommendations{kScaleDownCooldown};
  void archive(core::StateArchive& state) { state("apa", metric, recommendations); }
};

class Apa final : public PoolwisePolicy<ApaState> {
 public:
  explicit Apa(const PolicyContext& context)
      : PoolwisePolicy("apa", kResync), kv_use_(context.settings.get("kv", kKvUse)) {}

 protected:
  PoolDecision decide_pool(core::Instant now, const signals::PoolObservation& pool, ApaState& state) override {
    const bool prefill = pool.role == signals::Role::kPrefill;
    const ReadySamples samples = ready_samples(pool, now);
    // If all scrapes fail, AIBrix reports an error and does not scale.
    if (samples.known.empty()) return hold(pool, Reason::kNoData);
    double sum = 0.0;
    std::size_t measured = 0;
    for (const signals::ReplicaObservation* replica : samples.known) {
      const auto value =
          prefill ? std::optional<double>(replica->sample->queued_requests) : replica->sample->kv_usage();
      sum += value.value_or(0.0);
      measured += value ? 1 : 0;
    }
    if (measured == 0) return hold(pool, Reason::kNoData);
    state.metric.add(now, sum / static_cast<double>(measured));

    const double mean = *state.metric.mean(now, kWindow);
    const double target = prefill ? kPrefillQueueTarget : kv_use_;
    const double size = pool.target_replicas;
    auto [recommended, rate] = recommend(size, mean / target);
    if (const double guarded = guard_starting(pool, recommended, mean / target); guarded != recommended) {
      recommended = guarded;
      rate = Limit::kNone;
    }
    // The recommendation is clamped to the pool's bounds before it enters the window.
    const double allowed = bound(recommended, bounds_above_zero(pool)).replicas;
    state.recommendations.add(now, allowed);
    const double proposal = *state.recommendations.max(now, kScaleDownCooldown);

    Reason reason = Reason::kWithinTolerance;
    if (recommended != size) reason = recommended > size ? Reason::kLoadAboveTarget : Reason::kLoadBelowTarget;
    if (proposal != allowed && proposal >= size) reason = Reason::kStabilized;
    PoolDecision decision = decide_bounded(pool, proposal, reason);
    const Limit clamped = bound(recommended, bounds_above_zero(pool)).limit;
    decision.limited_by = proposal != allowed ? Limit::kCooldown : clamped != Limit::kNone ? clamped : rate;
    decision.evidence = {{prefill ? "queued_requests" : "kv_usage", mean, prefill ? "requests" : "share"},
                         {"target", target, prefill ? "requests" : "share"},
                         {"reporting", static_cast<double>(samples.known.size()), "replicas"}};
    return decision;
  }

 private:
  [[nodiscard]] static std::pair<double, Limit> recommend(double size, double ratio) {
    const double proposal = std::ceil(size * ratio);
    if (ratio > 1.0 + kUpTolerance) {
      const double most = std::ceil(kApaMaxScaleUpRate * size);
      return proposal > most ? std::pair{most, Limit::kGrowthRate} : std::pair{proposal, Limit::kNone};
    }
    if (ratio < 1.0 - kDownTolerance) {
      const double least = std::floor(size / kApaMaxScaleDownRate);
      return proposal < least ? std::pair{least, Limit::kShrinkRate} : std::pair{proposal, Limit::kNone};
    }
    return {size, Limit::kNone};
  }

  // Ports applyPendingReplicaGuard of autoscaler.go, for a metric that is read from pods.
  [[nodiscard]] static double guard_starting(const signals::PoolObservation& pool, double recommended, double ratio) {
    const double size = pool.target_replicas;
    const double ready = pool.ready;
    if (pool.starting == 0 || ready >= size || recommended == size) return recommended;
    if (recommended > size) return std::clamp(std::ceil(ready * ratio), size, recommended);
    return std::clamp(std::ceil(ready * ratio + (size - ready)), recommended, size);
  }

  double kv_use_;
};

}  // namespace

std::unique_ptr<Policy> make_apa(const PolicyContext& context) { return std::make_unique<Apa>(context); }

}  // namespace penstock::planner
