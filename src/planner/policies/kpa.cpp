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

constexpr core::Duration kTick = std::chrono::seconds{2};
constexpr core::Duration kStableWindow = std::chrono::seconds{60};
constexpr core::Duration kPanicWindow = std::chrono::seconds{6};  // 10 % of the stable window.
constexpr double kPanicThreshold = 2.0;
constexpr double kTargetUtilization = 0.7;
constexpr double kMaxScaleUpRate = 1000.0;
constexpr double kMaxScaleDownRate = 2.0;

struct KpaState {
  TimedValues concurrency{kStableWindow};
  bool started = false;
  std::optional<core::Instant> panic_since;  // Last time at which the threshold was crossed.
  double panic_replicas = 0.0;               // Highest proposal of this panic.
  void archive(core::StateArchive& state) { state("kpa", concurrency, started, panic_since, panic_replicas); }
};

class Kpa final : public PoolwisePolicy<KpaState> {
 public:
  explicit Kpa(const PolicyContext& context)
      : PoolwisePolicy("kpa", kTick),
        target_requests_(context.settings.get("utilisation", kTargetUtilization) * context.capacity.concurrency) {}

 protected:
  PoolDecision decide_pool(core::Instant now, const signals::PoolObservation& pool, KpaState& state) override {
    const std::uint32_t ready = pool.ready;
    if (!state.started) {
      state.started = true;
      if (ready > 1) state.panic_since = now;
      state.panic_replicas = ready;
    }
    record(now, pool, state);
    const std::optional<double> stable = state.concurrency.mean(now, kStableWindow);
    if (!stable) return hold(pool, Reason::kNoData);
    // Only the stable window must contain a value; the average of an empty panic window is zero.
    const double panic = state.concurrency.mean(now, kPanicWindow).value_or(0.0);

    const double size = std::max(1.0, static_cast<double>(ready));
    const double most = std::ceil(kMaxScaleUpRate * size);
    const double least = std::floor(size / kMaxScaleDownRate);
    const double stable_proposal = std::ceil(*stable / target_requests_);
    const double panic_proposal = std::ceil(panic / target_requests_);
    update_panic(now, panic_proposal / size >= kPanicThreshold, state);

    double proposal = std::clamp(stable_proposal, least, most);
    Limit rate = stable_proposal > most    ? Limit::kGrowthRate
                 : stable_proposal < least ? Limit::kShrinkRate
                                           : Limit::kNone;
    Reason reason = Reason::kWithinTolerance;
    if (state.panic_since) {
      state.panic_replicas = std::max({state.panic_replicas, proposal, std::clamp(panic_proposal, least, most)});
      proposal = state.panic_replicas;
      rate = std::max(stable_proposal, panic_proposal) > most ? Limit::kGrowthRate : Limit::kNone;
      reason = Reason::kPanic;
    } else if (proposal != pool.target_replicas) {
      reason = proposal > pool.target_replicas ? Reason::kLoadAboveTarget : Reason::kLoadBelowTarget;
    }
    PoolDecision decision = decide_bounded(pool, proposal, reason);
    if (decision.limited_by == Limit::kNone) decision.limited_by = rate;
    decision.evidence = {{"stable_concurrency", *stable, "requests"},
                         {"panic_concurrency", panic, "requests"},
                         {"target_per_replica", target_requests_, "requests"},
                         {"ready", static_cast<double>(ready), "replicas"}};
    return decision;
  }

 private:
  // Knative scrapes some of the pods and extrapolates to the others; its activator counts the requests in front of
  // them.
  static void record(core::Instant now, const signals::PoolObservation& pool, KpaState& state) {
    const ReadySamples samples = ready_samples(pool, now);
    if (samples.known.empty() && pool.unrouted_requests == 0) return;
    double concurrency = 0.0;
    for (const signals::ReplicaObservation* replica : samples.known)
      concurrency += static_cast<double>(replica->sample->running_requests) + replica->sample->queued_requests;
    const double mean = samples.known.empty() ? 0.0 : concurrency / static_cast<double>(samples.known.size());
    state.concurrency.add(now, mean * pool.ready + pool.unrouted_requests);
  }

  static void update_panic(core::Instant now, bool over, KpaState& state) {
    if (over) {
      state.panic_since = now;
    } else if (state.panic_since && now - *state.panic_since > kStableWindow) {
      state.panic_since.reset();
      state.panic_replicas = 0.0;
    }
  }

  double target_requests_;
};

}  // namespace

std::unique_ptr<Policy> make_kpa(const PolicyContext& context) { return std::make_unique<Kpa>(context); }

}  // namespace penstock::planner
