#include <algorithm>
#include <array>
#include <span>

#include "core/state_archive.h"
#include "planner/hpa_algorithm.h"
#include "planner/policies/llmd_replica_peaks.h"
#include "planner/policies/policies.h"
#include "planner/poolwise_policy.h"
#include "planner/samples.h"

namespace penstock::planner {

namespace {

using signals::PoolObservation;
using signals::Role;
using std::chrono::seconds;

// The guides' targets of one replica.
constexpr double kQueued = 1.0;       // Requests that wait.
constexpr double kRunning = 16.0;     // Requests that run.
constexpr double kSaturation = 0.7;   // Of the pool.
constexpr double kBacklog_s = 1.5;    // Time to compute the prompts in flight.
constexpr double kKvOccupancy = 0.8;  // Share of the KV cache.

HpaRules percent_in_15_s(seconds window) { return {window, {{HpaPolicy::Kind::kPercent, 100, seconds{15}}}}; }

struct WindowsState {
  HpaController hpa{{.up = percent_in_15_s(seconds{300}), .down = percent_in_15_s(seconds{300})}};
  void archive(core::StateArchive& state) { state("llmd_windows", hpa); }
};
struct GuardState {
  HpaController hpa{{.up = percent_in_15_s(seconds{0}), .down = percent_in_15_s(seconds{300})}};
  void archive(core::StateArchive& state) { state("llmd_guard", hpa); }
};
struct OnePodState {
  HpaController hpa{{.up = {seconds{0}, {{HpaPolicy::Kind::kPods, 1, seconds{180}}}},
                     .down = {seconds{300}, {{HpaPolicy::Kind::kPods, 1, seconds{300}}}}}};
  void archive(core::StateArchive& state) { state("llmd_one_pod", hpa); }
};

// What the endpoint picker and the engines export. As KEDA reads it, a missing series is 0.
struct EppSignals {
  double queued = 0.0, running = 0.0;  // Requests at the picker, and those that it has sent.
  double saturation = 0.0;             // From 0 to 1.
  double prompt_tokens = 0.0;          // That wait or are not computed yet.
  double kv_usage = 0.0;               // Sum of the shares of all replicas.
};

// The picker counts the prompt tokens that the cache of the chosen endpoint does not hold. Of those that wait in an
// engine, this is taken to be the share of all its prompts so far.
double uncached_share(const signals::EngineSample& sample) {
  const double prompts = static_cast<double>(sample.prompt_tokens_total.value_or(0));
  const double hits = static_cast<double>(sample.prefix_hit_tokens_total.value_or(0));
  return prompts > 0.0 ? 1.0 - std::min(1.0, hits / prompts) : 1.0;
}

EppSignals signals_of(core::Instant now, const PoolObservation& pool) {
  EppSignals made;
  const ReadySamples samples = ready_samples(pool, now);
  // In requests, of which kLlmdQueueThreshold saturate an endpoint. One without metrics counts as saturated.
  double load = kLlmdQueueThreshold * samples.missing;
  double queued = 0.0;  // In engines.
  const double mean_prompt = mean_prompt_tokens(pool);
  for (const signals::ReplicaObservation* replica : samples.known) {
    const signals::EngineSample& sample = *replica->sample;
    const double kv = sample.kv_usage().value_or(0.0);
    queued += sample.queued_requests;
    made.running += sample.running_requests;
    made.prompt_tokens += queued_prompt_tokens(sample, mean_prompt) * uncached_share(sample);
    made.prompt_tokens += static_cast<double>(sample.inflight_prefill_tokens.value_or(0));
    made.kv_usage += kv;
    load += std::max<double>(sample.queued_requests, kLlmdQueueThreshold * kv / kLlmdKvThreshold);
  }
  const double full = kLlmdQueueThreshold * static_cast<double>(samples.known.size() + samples.missing);
  // The picker sends nothing to a pool at 1. Where requests waited in engines instead, it would have held the excess.
  const double held = std::clamp(load - full, 0.0, queued);
  made.queued = pool.unrouted_requests + held;
  made.running += queued - held;
  made.saturation = full > 0.0 ? std::min(1.0, load / full) : 1.0;
  return made;
}

PoolDecision scale(core::Instant now, const PoolObservation& pool, HpaController& hpa,
                   std::span<const HpaProposal> proposals, std::vector<Evidence> evidence) {
  PoolDecision decision =
      hpa.decide(now, pool.target_replicas, bounds_above_zero(pool), greatest(proposals, pool.target_replicas));
  evidence.push_back({"ready", static_cast<double>(pool.ready), "replicas"});
  evidence.push_back({"provisioned", static_cast<double>(provisioned(pool)), "replicas"});
  decision.evidence = std::move(evidence);
  return decision;
}

// The larger of two triggers: a signal of the picker, and the running requests.
class LlmdTwoTriggers final : public PoolwisePolicy<WindowsState> {
 public:
  struct Trigger {
    double EppSignals::*signal;
    const char *name, *unit;
    double target;
  };
  LlmdTwoTriggers(std::string_view name, const Trigger& first, const PolicyContext& context)
      : PoolwisePolicy(name, kLlmdInterval), first_(first), running_(context.settings.get("running", kRunning)) {}

 protected:
  PoolDecision decide_pool(core::Instant now, const PoolObservation& pool, WindowsState& state) override {
    const EppSignals seen = signals_of(now, pool);
    const double first = seen.*first_.signal;
    const std::array proposals{propose_from_total(first, first_.target, provisioned(pool)),
                               propose_from_total(seen.running, running_, provisioned(pool))};
    return scale(now, pool, state.hpa, proposals,
                 {{first_.name, first, first_.unit}, {"running", seen.running, "requests"}});
  }

 private:
  Trigger first_;
  double running_;
};

class LlmdQueueGuard final : public PoolwisePolicy<GuardState> {
 public:
  explicit LlmdQueueGuard(const PolicyContext& context)
      : PoolwisePolicy("llmd-queue-guard", kLlmdInterval),
        queued_(context.settings.get("queue", kQueued)),
        running_(context.settings.get("running", kRunning)) {}

 protected:
  PoolDecision decide_pool(core::Instant now, const PoolObservation& pool, GuardState& state) override {
    const EppSignals seen = signals_of(now, pool);
    const double demand = std::max(seen.queued / queued_, seen.running / running_);
    const double replicas = provisioned(pool);
    const double discounted = demand <= replicas ? demand : std::max(demand - pool.starting, replicas);
    const std::array proposals{propose_from_total(discounted, 1.0, provisioned(pool))};
    return scale(
        now, pool, state.hpa, proposals,
        {{"queued", seen.queued, "requests"}, {"running", seen.running, "requests"}, {"demand", demand, "replicas"}});
  }

 private:
  double queued_, running_;
};

class LlmdTokenAware final : public PoolwisePolicy<OnePodState> {
 public:
  explicit LlmdTokenAware(const PolicyContext& context)
      : PoolwisePolicy("llmd-token-aware", kLlmdInterval),
        tokens_per_s_(context.idle_prompt_tokens_per_s),
        backlog_s_(context.settings.get("backlog", kBacklog_s)),
        kv_(context.settings.get("kv", kKvOccupancy)) {}

 protected:
  PoolDecision decide_pool(core::Instant now, const PoolObservation& pool, OnePodState& state) override {
    const EppSignals seen = signals_of(now, pool);
    const double backlog_s = seen.prompt_tokens / tokens_per_s_;
    std::vector<HpaProposal> proposals;
    if (pool.role != Role::kDecode) proposals.push_back(propose_from_total(backlog_s, backlog_s_, provisioned(pool)));
    if (pool.role != Role::kPrefill) proposals.push_back(propose_from_total(seen.kv_usage, kv_, provisioned(pool)));
    return scale(now, pool, state.hpa, proposals,
                 {{"prompt_backlog", backlog_s, "s"}, {"kv_usage_sum", seen.kv_usage, "replicas"}});
  }

 private:
  double tokens_per_s_, backlog_s_, kv_;
};

}  // namespace

std::unique_ptr<Policy> make_llmd_queue(const PolicyContext& context) {
  const LlmdTwoTriggers::Trigger queue{&EppSignals::queued, "queued", "requests",
                                       context.settings.get("queue", kQueued)};
  return std::make_unique<LlmdTwoTriggers>("llmd-queue", queue, context);
}
std::unique_ptr<Policy> make_llmd_queue_guard(const PolicyContext& context) {
  return std::make_unique<LlmdQueueGuard>(context);
}
std::unique_ptr<Policy> make_llmd_pool_saturation(const PolicyContext& context) {
  const LlmdTwoTriggers::Trigger saturation{&EppSignals::saturation, "pool_saturation", "share",
                                            context.settings.get("saturation", kSaturation)};
  return std::make_unique<LlmdTwoTriggers>("llmd-pool-saturation", saturation, context);
}
std::unique_ptr<Policy> make_llmd_token_aware(const PolicyContext& context) {
  return std::make_unique<LlmdTokenAware>(context);
}

}  // namespace penstock::planner
