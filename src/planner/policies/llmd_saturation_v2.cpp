#include "planner/policies/policies.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <deque>
#include <numeric>

#include "core/state_archive.h"
#include "planner/hpa_algorithm.h"
#include "planner/policies/llmd_replica_peaks.h"
#include "planner/poolwise_policy.h"

namespace penstock::planner {

namespace {

constexpr double kScaleUpThreshold = 0.85;
constexpr double kScaleDownBoundary = 0.70;
constexpr std::size_t kHistory = 10;
constexpr std::array kOutputBands{100.0, 500.0};  // Tokens; the last band is open.

// The HPA that llm-d ships with it, without its tolerance (docs/policies.md explains why).
[[nodiscard]] HpaBehavior shipped_behavior() {
  const HpaRules rules{core::Duration::zero(), {{HpaPolicy::Kind::kPods, 10, std::chrono::seconds{15}}}};
  return {rules, rules};
}

struct Shape {
  double input_tokens = 0.0;  // Mean per request.
  double output_tokens = 0.0;
  void archive(core::StateArchive& state) { state.values_of(input_tokens, output_tokens); }
};

struct V2State {
  LlmdReplicaPeaks peaks;
  Shape shape;
  std::array<std::deque<double>, kOutputBands.size() + 1> observed;  // k2 by output band, newest last.
  HpaController hpa{shipped_behavior()};
  void archive(core::StateArchive& state) { state("llmd_v2", peaks, shape, observed, hpa); }
};

[[nodiscard]] double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2.0;
}

class LlmdSaturationV2 final : public PoolwisePolicy<V2State> {
 public:
  explicit LlmdSaturationV2(const PolicyContext& context)
      : PoolwisePolicy("llmd-saturation-v2", kLlmdInterval),
        batched_tokens_(static_cast<double>(context.max_batched_tokens)),
        sequences_(static_cast<double>(context.max_sequences)),
        up_(context.settings.get("up", kScaleUpThreshold)),
        down_(std::min(context.settings.get("down", up_ * kScaleDownBoundary / kScaleUpThreshold), up_)) {}

 protected:
  PoolDecision decide_pool(core::Instant now, const signals::PoolObservation& pool, V2State& state) override {
    update_shape(pool, state.shape);
    double demand = upstream_demand(pool, state.shape);
    std::vector<double> capacities;
    for (const ReplicaPeak& peak : state.peaks.observe(now, pool)) {
      if (peak.kv_capacity_tokens <= 0.0) continue;
      const double in_use = peak.kv_usage * peak.kv_capacity_tokens;
      demand += in_use + peak.queued_requests * state.shape.input_tokens;
      const double memory_bound = kLlmdKvThreshold * peak.kv_capacity_tokens;
      capacities.push_back(std::min(memory_bound, compute_bound(peak, in_use, memory_bound, state)));
    }
    const double capacity = capacities.empty() ? 0.0 : median(capacities);
    const HpaProposal proposal = propose(pool, demand, capacity);
    PoolDecision decision = state.hpa.decide(now, pool.target_replicas, bounds_above_zero(pool), proposal);
    decision.evidence = {{"demand", demand, "tokens"},
                         {"capacity_per_replica", capacity, "tokens"},
                         {"ready", static_cast<double>(pool.ready), "replicas"},
                         {"starting", static_cast<double>(pool.starting), "replicas"},
                         {"reporting", static_cast<double>(capacities.size()), "replicas"}};
    return decision;
  }

 private:
  static void update_shape(const signals::PoolObservation& pool, Shape& shape) {
    const signals::TrafficWindow& traffic = pool.last_minute;
    if (traffic.arrivals > 0)
      shape.input_tokens = static_cast<double>(traffic.input_tokens) / static_cast<double>(traffic.arrivals);
    if (pool.role == signals::Role::kPrefill)
      shape.output_tokens = 1.0;
    else if (traffic.completed > 0)
      shape.output_tokens =
          static_cast<double>(traffic.completed_output_tokens) / static_cast<double>(traffic.completed);
  }

  [[nodiscard]] static double upstream_demand(const signals::PoolObservation& pool, const Shape& shape) {
    const double output = pool.role == signals::Role::kPrefill ? 0.0 : shape.output_tokens;
    return pool.unrouted_requests * (shape.input_tokens + output);
  }

  [[nodiscard]] double compute_bound(const ReplicaPeak& peak, double in_use, double memory_bound,
                                     V2State& state) const {
    const Shape& shape = state.shape;
    const auto band = std::upper_bound(kOutputBands.begin(), kOutputBands.end(), shape.output_tokens);
    auto& observed = state.observed[static_cast<std::size_t>(band - kOutputBands.begin())];
    if (peak.queued_requests >= kLlmdQueueThreshold && in_use > 0.0) {
      observed.push_back(in_use);
      if (observed.size() > kHistory) observed.pop_front();
      return in_use;
    }
    if (!observed.empty())
      return std::accumulate(observed.begin(), observed.end(), 0.0) / static_cast<double>(observed.size());
    if (shape.output_tokens <= 0.0) return memory_bound;
    const double steady =
        std::min(batched_tokens_ * shape.output_tokens / (shape.input_tokens + shape.output_tokens), sequences_);
    const double derived = steady * (shape.input_tokens + shape.output_tokens / 2.0);
    return derived > 0.0 ? derived : memory_bound;
  }

  [[nodiscard]] HpaProposal propose(const signals::PoolObservation& pool, double demand, double capacity) const {
    const double size = provisioned(pool);
    if (capacity <= 0.0) return {size, Reason::kNoData};
    const double lack = demand / up_ - size * capacity;
    if (lack > 0.0) return {size + std::ceil(lack / capacity), Reason::kSaturated};
    const double excess = pool.ready * capacity - demand / down_;
    if (const double removable = std::floor(excess / capacity); removable > 0.0)
      return {size - removable, Reason::kSpareCapacity};
    return {size, Reason::kWithinTolerance};
  }

  double batched_tokens_, sequences_;
  double up_, down_;  // Shares of the capacity.
};

}  // namespace

std::unique_ptr<Policy> make_llmd_saturation_v2(const PolicyContext& context) {
  return std::make_unique<LlmdSaturationV2>(context);
}

}  // namespace penstock::planner
