#include "planner/policies/policies.h"

#include <algorithm>
#include <cmath>

#include "core/state_archive.h"
#include "planner/hpa_algorithm.h"
#include "planner/policies/llmd_replica_peaks.h"
#include "planner/poolwise_policy.h"
#include "planner/windows.h"

namespace penstock::planner {

namespace {

constexpr double kScaleUp = 0.55;
constexpr double kScaleDown = 0.40;
constexpr double kCeiling = 2.0;  // Limits the effect of one bad quantile on the mean.
constexpr core::Duration kSmoothing = std::chrono::seconds{45};

[[nodiscard]] HpaBehavior guide_behavior() {
  using std::chrono::seconds;
  return {
      .up = {seconds{30}, {{HpaPolicy::Kind::kPercent, 100, seconds{60}}, {HpaPolicy::Kind::kPods, 4, seconds{60}}}},
      .down = {seconds{180}, {{HpaPolicy::Kind::kPods, 1, seconds{120}}}}};
}

struct SloState {
  TimedValues pressure{kSmoothing};
  HpaController hpa{guide_behavior()};
  void archive(core::StateArchive& state) { state("llmd_slo", pressure, hpa); }
};

class LlmdSlo final : public PoolwisePolicy<SloState> {
 public:
  explicit LlmdSlo(const PolicyContext& context)
      : PoolwisePolicy("llmd-slo", kLlmdInterval),
        slo_(context.slo),
        up_(context.settings.get("up", kScaleUp)),
        down_(std::min(context.settings.get("down", up_ * kScaleDown / kScaleUp), up_)) {}

 protected:
  PoolDecision decide_pool(core::Instant now, const signals::PoolObservation& pool, SloState& state) override {
    const auto share = [](const signals::LatencyWindow& latency, core::Duration target) {
      return latency.count == 0 ? 0.0 : latency.p90_ms / core::to_milliseconds(target);
    };
    const double ttft = pool.role == signals::Role::kDecode ? 0.0 : share(pool.last_minute.ttft, slo_.ttft);
    const double itl = pool.role == signals::Role::kPrefill ? 0.0 : share(pool.last_minute.itl, slo_.itl);
    state.pressure.add(now, std::min(std::max(ttft, itl), kCeiling));
    const double pressure = *state.pressure.mean(now, kSmoothing);

    HpaProposal proposal = propose_from_total(wanted_replicas(pool, pressure), 1.0, provisioned(pool));
    if (proposal.reason == Reason::kLoadAboveTarget) proposal.reason = Reason::kSloAtRisk;
    if (proposal.reason == Reason::kLoadBelowTarget) proposal.reason = Reason::kSloMet;
    PoolDecision decision = state.hpa.decide(now, pool.target_replicas, bounds_above_zero(pool), proposal);
    decision.evidence = {{"slo_pressure", pressure, "share"},
                         {"ttft_p90_share", ttft, "share"},
                         {"itl_p90_share", itl, "share"},
                         {"ready", static_cast<double>(pool.ready), "replicas"},
                         {"provisioned", static_cast<double>(provisioned(pool)), "replicas"}};
    return decision;
  }

 private:
  [[nodiscard]] double wanted_replicas(const signals::PoolObservation& pool, double pressure) const {
    const double size = provisioned(pool);
    if (pressure > up_) {
      // Replicas that are still starting were requested because of the same load.
      const double credit = pool.ready > 0 && pool.ready < size ? pool.ready / size : 1.0;
      return size + std::ceil(size * (pressure * credit / up_ - 1.0));
    }
    if (pressure < down_) return size - std::floor(size * (1.0 - pressure / down_));
    return size;
  }

  signals::SloTarget slo_;
  double up_, down_;
};

}  // namespace

std::unique_ptr<Policy> make_llmd_slo(const PolicyContext& context) { return std::make_unique<LlmdSlo>(context); }

}  // namespace penstock::planner
