#include "planner/policies/policies.h"

#include <algorithm>

#include "planner/bounds.h"
#include "planner/policies/dynamo_loop.h"

namespace penstock::planner {

namespace {

struct Thresholds {
  double queue_up;         // Share of the context length at which the pool grows.
  double queue_down;       // The pool shrinks below this share or, if it is 0, when the queue is empty.
  double kv_up;            // Share of the KV capacity above which the pool grows.
  double kv_down;          // The pool shrinks below this share.
  bool inclusive = false;  // Pools also change at kv_up, kv_down and queue_down; queue shares are tokens.
};
constexpr Thresholds kThroughput{1.0, 0.1, 1.0, 0.6};
constexpr Thresholds kLatency{0.1, 0.0, 0.4, 0.1};
constexpr Thresholds kLoad{8192.0, 512.0, 0.8, 0.4, true};

// The load of each reporting engine as a share; empty if an engine does not report what Dynamo reads.
[[nodiscard]] std::vector<double> loads_of(const signals::PoolObservation& pool, double context_length) {
  std::vector<double> loads;
  for (const signals::ReplicaObservation& replica : pool.replicas) {
    if (replica.state != signals::ReplicaState::kReady || !replica.sample) continue;
    const signals::EngineSample& sample = *replica.sample;
    if (pool.role == signals::Role::kPrefill) {
      if (!sample.queued_prefill_tokens) return {};
      loads.push_back(static_cast<double>(*sample.queued_prefill_tokens) / context_length);
      continue;
    }
    const std::uint64_t capacity = sample.kv_capacity_tokens.value_or(0);
    if (capacity == 0 || !sample.scheduled_kv_tokens || !sample.queued_kv_tokens) return {};
    std::uint64_t tokens = *sample.scheduled_kv_tokens + *sample.queued_kv_tokens;
    if (pool.role == signals::Role::kAggregated) {
      if (!sample.queued_prefill_tokens) return {};
      tokens += *sample.queued_prefill_tokens;
    }
    loads.push_back(static_cast<double>(tokens) / static_cast<double>(capacity));
  }
  return loads;
}

class DynamoLoad final : public Policy {
 public:
  DynamoLoad(std::string_view name, const Thresholds& thresholds, const PolicyContext& context)
      : name_(name),
        thresholds_(thresholds),
        context_length_(thresholds.inclusive ? 1.0 : static_cast<double>(context.context_length)) {}

  [[nodiscard]] std::string_view name() const override { return name_; }
  [[nodiscard]] core::Duration interval() const override { return kDynamoLoadInterval; }

  [[nodiscard]] Decision decide(const signals::Observation& observation) override {
    std::vector<std::vector<double>> loads;
    DynamoPartner partner;
    for (const signals::PoolObservation& pool : observation.pools) {
      loads.push_back(loads_of(pool, context_length_));
      partner.add(pool, loads.back().size());
    }
    Decision decision;
    for (std::size_t i = 0; i < observation.pools.size(); ++i) {
      const signals::PoolObservation& pool = observation.pools[i];
      decision.pools.push_back(decide_pool(pool, loads[i], partner.of(pool)));
      decision.pools.back().evidence = evidence_of(pool, loads[i]);
    }
    return decision;
  }

 private:
  [[nodiscard]] PoolDecision decide_pool(const signals::PoolObservation& pool, const std::vector<double>& loads,
                                         const DynamoPartner& partner) const {
    if (dynamo_is_scaling(pool) || partner.scaling) return hold(pool, Reason::kScalingInProgress);
    if (loads.empty()) return hold(pool, Reason::kNoData);
    if (loads.size() != pool.ready || partner.incomplete) return hold(pool, Reason::kInsufficientData);
    const bool prefill = pool.role == signals::Role::kPrefill;
    const auto hot = [&](double load) {
      if (prefill) return load >= thresholds_.queue_up;
      return thresholds_.inclusive ? load >= thresholds_.kv_up : load > thresholds_.kv_up;
    };
    const auto idle = [&](double load) {
      const double down = prefill ? thresholds_.queue_down : thresholds_.kv_down;
      return thresholds_.inclusive || down == 0.0 ? load <= down : load < down;
    };
    const double size = pool.ready;
    if (std::any_of(loads.begin(), loads.end(), hot)) return decide_bounded(pool, size + 1.0, Reason::kLoadAboveTarget);
    if (pool.ready > 1 && std::all_of(loads.begin(), loads.end(), idle)) {
      // A load above the threshold after the removal would add the replica again.
      const double remaining = *std::max_element(loads.begin(), loads.end()) * size / (size - 1.0);
      if (remaining >= (prefill ? thresholds_.queue_up : thresholds_.kv_up))
        return hold(pool, Reason::kWithinTolerance);
      return decide_bounded(pool, size - 1.0, Reason::kLoadBelowTarget);
    }
    return hold(pool, Reason::kWithinTolerance);
  }

  [[nodiscard]] std::vector<Evidence> evidence_of(const signals::PoolObservation& pool,
                                                  const std::vector<double>& loads) const {
    std::vector<Evidence> evidence;
    if (!loads.empty()) {
      const auto [least, most] = std::minmax_element(loads.begin(), loads.end());
      const bool prefill = pool.role == signals::Role::kPrefill;
      const char* unit = prefill && thresholds_.inclusive ? "tokens" : "share";
      evidence.push_back({prefill ? "queue_load_max" : "kv_load_max", *most, unit});
      evidence.push_back({prefill ? "queue_load_min" : "kv_load_min", *least, unit});
    }
    evidence.push_back({"reporting", static_cast<double>(loads.size()), "replicas"});
    evidence.push_back({"ready", static_cast<double>(pool.ready), "replicas"});
    return evidence;
  }

  std::string_view name_;
  Thresholds thresholds_;
  double context_length_;
};

}  // namespace

std::unique_ptr<Policy> make_dynamo_throughput(const PolicyContext& context) {
  return std::make_unique<DynamoLoad>("dynamo-throughput", kThroughput, context);
}
std::unique_ptr<Policy> make_dynamo_latency(const PolicyContext& context) {
  return std::make_unique<DynamoLoad>("dynamo-latency", kLatency, context);
}
std::unique_ptr<Policy> make_dynamo_load(const PolicyContext& context) {
  return std::make_unique<DynamoLoad>("dynamo-load", kLoad, context);
}

}  // namespace penstock::planner
