#include <algorithm>
#include <cmath>
#include <optional>
#include <string_view>
#include <vector>

#include "planner/bounds.h"
#include "planner/policies/dynamo_engine_model.h"
#include "planner/policies/dynamo_loop.h"
#include "planner/policies/dynamo_traffic.h"
#include "planner/policies/policies.h"

namespace penstock::planner {

using signals::Role;

namespace {

constexpr core::Duration kThroughputInterval = std::chrono::seconds{180};
constexpr double kSensitivity = 0.8;             // load_scaling_down_sensitivity
constexpr std::uint32_t kThroughputStepMax = 8;  // max_throughput_scaling_replicas

// What one latency says about the size of a pool.
enum class Verdict : std::uint8_t { kUnknown, kHold, kRefused, kUp, kDown };

// The loops that run: that of throughput plans from the traffic, that of load from what the engines show.
enum class SlaLoops : std::uint8_t { kBoth, kLoadOnly, kThroughputOnly };

struct Engines {
  std::vector<DynamoEngineLoad> loads;
  std::uint64_t kv_tokens = 0;  // The least capacity of an engine.
};

// Empty if a ready engine has not shown a forward pass yet.
[[nodiscard]] Engines engines_of(const signals::PoolObservation& pool) {
  Engines engines;
  for (const signals::ReplicaObservation& replica : pool.replicas) {
    if (replica.state != signals::ReplicaState::kReady || !replica.sample) continue;
    const signals::EngineSample& sample = *replica.sample;
    if (!sample.last_iteration || !sample.queued_prefill_tokens) continue;
    engines.loads.push_back({static_cast<double>(sample.queued_requests),
                             static_cast<double>(*sample.queued_prefill_tokens),
                             static_cast<double>(sample.last_iteration->decode_sequences),
                             static_cast<double>(sample.last_iteration->decode_context_tokens),
                             static_cast<double>(sample.queued_kv_tokens.value_or(0))});
    const std::uint64_t capacity = sample.kv_capacity_tokens.value_or(0);
    if (capacity > 0) engines.kv_tokens = engines.kv_tokens == 0 ? capacity : std::min(engines.kv_tokens, capacity);
  }
  return engines;
}

class DynamoSla final : public Policy {
 public:
  DynamoSla(std::string_view name, SlaLoops loops, const PolicyContext& context)
      : name_(name),
        loops_(loops),
        ttft_s_(core::to_seconds(context.slo.ttft) * context.settings.get("slo", 1.0)),
        itl_s_(core::to_seconds(context.slo.itl) * context.settings.get("slo", 1.0)),
        limits_{context.max_batched_tokens, context.max_sequences, 0} {}

  [[nodiscard]] std::string_view name() const override { return name_; }
  [[nodiscard]] core::Duration interval() const override { return kDynamoLoadInterval; }

  [[nodiscard]] Decision decide(const signals::Observation& observation) override {
    while (pools_.size() < observation.pools.size()) {
      const Role role = observation.pools[pools_.size()].role;
      pools_.emplace_back().model = DynamoEngineModel{role};
      pools_.back().traffic.begin(observation.now - kDynamoLoadInterval);
    }
    if (!begun_at_) begun_at_ = observation.now - kDynamoLoadInterval;
    const bool plans = with_throughput() && observation.now - *begun_at_ >= kThroughputInterval;
    if (plans) begun_at_ = observation.now;

    std::vector<Engines> engines;
    DynamoPartner partner;
    for (std::size_t i = 0; i < observation.pools.size(); ++i) {
      const signals::PoolObservation& pool = observation.pools[i];
      engines.push_back(engines_of(pool));
      observe(observation.now, pool, pools_[i]);
      if (plans) plan(observation.now, pool, engines.back(), pools_[i]);
      partner.add(pool, engines.back().loads.size());
    }
    Decision decision;
    for (std::size_t i = 0; i < observation.pools.size(); ++i) {
      const signals::PoolObservation& pool = observation.pools[i];
      decision.pools.push_back(loops_ == SlaLoops::kThroughputOnly
                                   ? follow_plan(pool, pools_[i], plans)
                                   : decide_pool(pool, engines[i], pools_[i], partner.of(pool)));
    }
    return decision;
  }

  void archive(core::StateArchive& state) override { state("dynamo-sla", begun_at_, pools_); }

 private:
  struct PoolState {
    DynamoEngineModel model;
    DynamoTraffic traffic;
    DynamoHitRatio hits;
    double hit_ratio = 0.0;
    std::uint32_t floor = 1;   // Of the throughput loop.
    double engine_rate = 0.0;  // Requests per second of one replica at the last plan.
    void archive(core::StateArchive& state) { state.values_of(model, traffic, hits, hit_ratio, floor, engine_rate); }
  };
  struct Estimates {
    double ttft_ms = -1.0, itl_ms = -1.0;  // The highest of all engines; negative if unknown.
  };

  [[nodiscard]] bool with_throughput() const { return loops_ != SlaLoops::kLoadOnly; }

  void observe(core::Instant now, const signals::PoolObservation& pool, PoolState& state) const {
    for (const signals::ReplicaObservation& replica : pool.replicas)
      if (replica.state == signals::ReplicaState::kReady && replica.sample && replica.sample->last_iteration)
        state.model.observe(*replica.sample->last_iteration);
    state.hits.observe(pool);
    state.traffic.observe(now, pool.last_minute);
    if (!with_throughput()) state.hit_ratio = state.hits.take().value_or(0.0);
  }

  // The throughput loop sets the floor of the load loop.
  void plan(core::Instant now, const signals::PoolObservation& pool, const Engines& engines, PoolState& state) const {
    state.traffic.close(now);
    state.hit_ratio = state.hits.take().value_or(state.hit_ratio);
    DynamoEngineLimits limits = limits_;
    limits.kv_tokens = engines.kv_tokens;
    const DynamoRequestShape shape{state.traffic.input_tokens(), state.traffic.output_tokens(), state.hit_ratio};
    const auto capacity = state.model.capacity(shape, limits, ttft_s_, itl_s_);
    state.engine_rate = capacity ? capacity->requests_per_s : 0.0;
    const double current = pool.ready;
    double floor = state.engine_rate > 0.0 ? std::ceil(state.traffic.requests_per_s() / state.engine_rate) : current;
    floor = std::clamp(floor, std::max(0.0, current - kThroughputStepMax), current + kThroughputStepMax);
    state.floor = bound(floor, bounds_above_zero(pool)).replicas;
  }

  // Without the load loop, the pool has the replicas of the last plan. It may grow and shrink while replicas start.
  [[nodiscard]] PoolDecision follow_plan(const signals::PoolObservation& pool, const PoolState& state,
                                         bool plans) const {
    PoolDecision decision = hold(pool, plans ? Reason::kInsufficientData : Reason::kWithinTolerance);
    if (plans && state.engine_rate > 0.0) decision = decide_bounded(pool, state.floor, Reason::kFormula);
    add_plan_evidence(state, decision);
    return decision;
  }

  void add_plan_evidence(const PoolState& state, PoolDecision& decision) const {
    if (with_throughput()) decision.evidence.push_back({"floor", static_cast<double>(state.floor), "replicas"});
    if (state.engine_rate > 0.0) decision.evidence.push_back({"requests_per_s_per_replica", state.engine_rate, "1/s"});
  }

  [[nodiscard]] PoolDecision decide_pool(const signals::PoolObservation& pool, const Engines& engines,
                                         const PoolState& state, const DynamoPartner& partner) const {
    Estimates estimates;
    PoolDecision decision = decide_load(pool, engines, state, partner, estimates);
    auto& evidence = decision.evidence;
    if (estimates.ttft_ms >= 0.0) evidence.push_back({"estimated_ttft", estimates.ttft_ms, "ms"});
    if (estimates.itl_ms >= 0.0) evidence.push_back({"estimated_itl", estimates.itl_ms, "ms"});
    add_plan_evidence(state, decision);
    evidence.push_back({"reporting", static_cast<double>(engines.loads.size()), "replicas"});
    evidence.push_back({"ready", static_cast<double>(pool.ready), "replicas"});
    return decision;
  }

  [[nodiscard]] PoolDecision decide_load(const signals::PoolObservation& pool, const Engines& engines,
                                         const PoolState& state, const DynamoPartner& partner,
                                         Estimates& estimates) const {
    if (dynamo_is_scaling(pool) || partner.scaling) return hold(pool, Reason::kScalingInProgress);
    if (engines.loads.empty()) return hold(pool, Reason::kNoData);
    if (engines.loads.size() != pool.ready || partner.incomplete) return hold(pool, Reason::kInsufficientData);
    if (!state.model.ready()) return hold(pool, Reason::kInsufficientData);

    const Verdict verdict = verdict_of(pool, engines, state, estimates);
    double proposal = pool.ready;
    if (verdict == Verdict::kUp) proposal += 1.0;
    if (verdict == Verdict::kDown) proposal -= 1.0;
    const double floor = with_throughput() ? state.floor : 0.0;
    PoolDecision decision;
    if (floor > proposal && floor > pool.ready)
      decision = decide_bounded(pool, floor, Reason::kFormula);
    else if (verdict == Verdict::kUp)
      decision = decide_bounded(pool, proposal, Reason::kSloAtRisk);
    else if (verdict == Verdict::kDown)
      decision = decide_bounded(pool, std::max(proposal, floor), Reason::kSpareCapacity);
    else if (verdict == Verdict::kRefused)
      decision = hold(pool, Reason::kConsolidationRefused);
    else
      decision = hold(pool, verdict == Verdict::kUnknown ? Reason::kInsufficientData : Reason::kWithinTolerance);
    decision.evidence.push_back({"load_based_target", proposal, "replicas"});
    return decision;
  }

  // The TTFT counts in prefill and aggregated pools, the ITL in decode and aggregated ones.
  [[nodiscard]] Verdict verdict_of(const signals::PoolObservation& pool, const Engines& engines, const PoolState& state,
                                   Estimates& estimates) const {
    if (pool.role == Role::kPrefill) return ttft_verdict(pool, engines, state, estimates);
    const Verdict itl = itl_verdict(pool, engines, state, estimates);
    if (pool.role == Role::kDecode) return itl;
    const Verdict ttft = ttft_verdict(pool, engines, state, estimates);
    if (ttft == Verdict::kUp || itl == Verdict::kUp) return Verdict::kUp;
    if (itl == Verdict::kDown && ttft != Verdict::kRefused) return Verdict::kDown;
    if (ttft == Verdict::kRefused || itl == Verdict::kRefused) return Verdict::kRefused;
    return ttft == Verdict::kUnknown && itl == Verdict::kUnknown ? Verdict::kUnknown : Verdict::kHold;
  }

  // `slow` of the engines that have an estimate exceed the target.
  [[nodiscard]] static Verdict combine(std::size_t estimated, std::size_t slow, bool may_shrink, bool refused) {
    if (estimated > 0 && slow == estimated) return Verdict::kUp;
    if (estimated > 0 && may_shrink) return Verdict::kDown;
    if (refused) return Verdict::kRefused;
    return estimated == 0 ? Verdict::kUnknown : Verdict::kHold;
  }

  [[nodiscard]] Verdict ttft_verdict(const signals::PoolObservation& pool, const Engines& engines,
                                     const PoolState& state, Estimates& estimates) const {
    const double fewer = pool.ready > 1 ? pool.ready / (pool.ready - 1.0) : 1.0;
    const bool aggregated = pool.role == Role::kAggregated;
    std::size_t estimated = 0, slow = 0;
    bool may_shrink = pool.ready > 1, refused = false;
    for (const DynamoEngineLoad& load : engines.loads) {
      if (const auto ttft = state.model.ttft(load, limits_, state.hit_ratio)) {
        ++estimated;
        slow += *ttft > ttft_s_ ? 1 : 0;
        estimates.ttft_ms = std::max(estimates.ttft_ms, *ttft * 1000.0);
      }
      if (!may_shrink) continue;
      // The prompt's own time does not depend on the number of replicas, so only the wait must fit.
      DynamoScale alone{0.0, aggregated ? fewer : 1.0, aggregated, false};
      const auto own = state.model.ttft(load, limits_, state.hit_ratio, alone);
      alone.queue = fewer;
      const auto after = state.model.ttft(load, limits_, state.hit_ratio, alone);
      const double room = own ? (ttft_s_ - *own) * kSensitivity : 0.0;
      may_shrink = own && after && room > 0.0 && *after - *own < room;
      refused |= own && after && !may_shrink;
    }
    return combine(estimated, slow, may_shrink, refused);
  }

  [[nodiscard]] Verdict itl_verdict(const signals::PoolObservation& pool, const Engines& engines,
                                    const PoolState& state, Estimates& estimates) const {
    const double fewer = pool.ready > 1 ? pool.ready / (pool.ready - 1.0) : 1.0;
    const bool aggregated = pool.role == Role::kAggregated;
    std::size_t estimated = 0, slow = 0;
    bool may_shrink = pool.ready > 1, refused = false;
    for (const DynamoEngineLoad& load : engines.loads) {
      if (const auto itl = state.model.itl(load, {})) {
        ++estimated;
        slow += *itl > itl_s_ ? 1 : 0;
        estimates.itl_ms = std::max(estimates.itl_ms, *itl * 1000.0);
      }
      if (!may_shrink) continue;
      const double kv =
          std::floor((load.decode_tokens + load.preempted_tokens + (aggregated ? load.queued_tokens : 0.0)) * fewer);
      const bool fits = engines.kv_tokens == 0 || kv < static_cast<double>(engines.kv_tokens);
      const auto after = state.model.itl(load, {1.0, fewer, true, aggregated});
      may_shrink = fits && after && *after < itl_s_ * kSensitivity;
      refused |= !fits || (after && !may_shrink);
    }
    return combine(estimated, slow, may_shrink, refused);
  }

  std::string_view name_;
  SlaLoops loops_;
  double ttft_s_, itl_s_;
  DynamoEngineLimits limits_;
  std::optional<core::Instant> begun_at_;  // Of the throughput loop's interval.
  std::vector<PoolState> pools_;
};

}  // namespace

std::unique_ptr<Policy> make_dynamo_sla(const PolicyContext& context) {
  return std::make_unique<DynamoSla>("dynamo-sla", SlaLoops::kBoth, context);
}
std::unique_ptr<Policy> make_dynamo_sla_load(const PolicyContext& context) {
  return std::make_unique<DynamoSla>("dynamo-sla-load", SlaLoops::kLoadOnly, context);
}
std::unique_ptr<Policy> make_dynamo_sla_throughput(const PolicyContext& context) {
  return std::make_unique<DynamoSla>("dynamo-sla-throughput", SlaLoops::kThroughputOnly, context);
}

}  // namespace penstock::planner
