#include "planner/policies/policies.h"

#include <algorithm>

#include "core/state_archive.h"
#include "planner/hpa_algorithm.h"
#include "planner/hpa_targets.h"
#include "planner/poolwise_policy.h"
#include "planner/samples.h"

namespace penstock::planner {

namespace {

constexpr core::Duration kPollingInterval = std::chrono::seconds{30};
constexpr core::Duration kCooldown = std::chrono::seconds{300};

struct KedaState {
  HpaController hpa;
  std::optional<core::Instant> last_poll;
  std::optional<core::Instant> last_active;
  void archive(core::StateArchive& state) { state("keda", hpa, last_poll, last_active); }
};

struct Trigger {
  double value = 0.0;
  double target = 1.0;  // AverageValue: the load that one replica should carry.
};

class KedaTokens final : public PoolwisePolicy<KedaState> {
 public:
  explicit KedaTokens(const PolicyContext& context)
      : PoolwisePolicy("keda-tokens", kHpaSyncPeriod),
        capacity_(context.capacity),
        utilisation_(context.settings.get("utilisation", kTokenUtilization)) {}

 protected:
  PoolDecision decide_pool(core::Instant now, const signals::PoolObservation& pool, KedaState& state) override {
    std::vector<Evidence> evidence;
    const std::vector<Trigger> triggers = measure(now, pool, evidence);
    const bool active = std::any_of(triggers.begin(), triggers.end(), [](const Trigger& t) { return t.value > 0.0; });
    if (active || !state.last_active) state.last_active = now;
    const bool polled = polls(now, state);

    PoolDecision decision;
    if (pool.min_replicas == 0 && pool.target_replicas == 0) {
      decision = hold(pool, Reason::kWithinTolerance);
      if (active && polled) decision = decide_bounded(pool, 1.0, Reason::kLoadAboveTarget);
    } else {
      decision = scale(now, pool, triggers, state);
      if (pool.min_replicas == 0 && !active) {
        if (polled && now - *state.last_active >= kCooldown)
          decision = decide_with_zero(pool, 0.0, Reason::kLoadBelowTarget);
        else if (decision.target == 1)
          decision.limited_by = Limit::kCooldown;
      }
    }
    decision.evidence = std::move(evidence);
    return decision;
  }

 private:
  [[nodiscard]] std::vector<Trigger> measure(core::Instant now, const signals::PoolObservation& pool,
                                             std::vector<Evidence>& evidence) const {
    const signals::TrafficWindow& traffic = pool.last_minute;
    const auto rate_per_s = [&](std::uint64_t tokens) {
      return traffic.length > core::Duration::zero() ? static_cast<double>(tokens) / core::to_seconds(traffic.length)
                                                     : 0.0;
    };
    std::vector<Trigger> triggers;
    const auto targets = token_targets(capacity_, utilisation_, pool.role);
    for (const MetricTarget& target : targets) {
      triggers.push_back({0.0, target.per_replica});
      double& value = triggers.back().value;
      if (target.metric == PoolMetric::kKvUsage) {
        for (const signals::ReplicaObservation* replica : ready_samples(pool, now).known)
          value += replica->sample->kv_usage().value_or(0.0);  // A missing series adds nothing to PromQL's sum.
        evidence.push_back({"kv_usage_sum", value, "replicas"});
        continue;
      }
      const bool is_input = target.metric == PoolMetric::kInputTokenRate;
      value = rate_per_s(is_input ? traffic.input_tokens : traffic.output_tokens);
      evidence.push_back({is_input ? "input_token_rate" : "output_token_rate", value, "tokens/s"});
      evidence.push_back(
          {is_input ? "input_target_per_replica" : "output_target_per_replica", target.per_replica, "tokens/s"});
    }
    return triggers;
  }

  [[nodiscard]] static PoolDecision scale(core::Instant now, const signals::PoolObservation& pool,
                                          const std::vector<Trigger>& triggers, KedaState& state) {
    std::vector<HpaProposal> proposals;
    for (const Trigger& trigger : triggers)
      proposals.push_back(propose_from_total(trigger.value, trigger.target, provisioned(pool)));
    return state.hpa.decide(now, pool.target_replicas, bounds_above_zero(pool),
                            greatest(proposals, pool.target_replicas));
  }

  [[nodiscard]] static bool polls(core::Instant now, KedaState& state) {
    if (state.last_poll && now - *state.last_poll < kPollingInterval) return false;
    state.last_poll = now;
    return true;
  }

  ReplicaCapacity capacity_;
  double utilisation_;
};

}  // namespace

std::unique_ptr<Policy> make_keda_tokens(const PolicyContext& context) { return std::make_unique<KedaTokens>(context); }

}  // namespace penstock::planner
