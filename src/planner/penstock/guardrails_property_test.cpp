// Whatever a platform, its telemetry, its clock and other people do: what the guardrails promise holds at every tick,
// and once all is quiet, proposals come true. The rules are written a second time here, in time that no clock can
// distort.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <deque>
#include <limits>
#include <map>
#include <string>

#include "core/random.h"
#include "planner/bounds.h"
#include "planner/penstock/fleet_guardrails.h"
#include "planner/planner_testing.h"

namespace penstock::planner {
namespace {

using core::RandomStream;
using signals::ClockState;
using signals::EngineSample;
using signals::PoolObservation;
using signals::ReplicaState;
using testing::at_s;

constexpr double kTickS = 15.0;
constexpr double kLongAgo = -1e9;

// How likely each trouble is at a tick; drawn for each sequence, so that some are calm.
struct Troubles {
  double hot = 0, queue = 0, short_queue = 0, unrouted = 0, bad_sample = 0, counts = 0, failures = 0, dying = 0,
         refused = 0, manual = 0, jump = 0, bounds = 0, bad_latency = 0;
  bool partial = false;  // Each engine reports a subset of the figures, as engines of other makes do.

  explicit Troubles(RandomStream& random) {
    for (double* share : {&hot, &queue, &short_queue, &unrouted, &bad_sample, &counts, &failures, &dying, &refused,
                          &manual, &jump, &bounds, &bad_latency})
      if (random.below(3) == 0) *share = random.uniform(0.0, 0.06);
    refused *= 8.0;  // they only act where something changes
    dying *= 8.0;
    manual *= 0.2;
    partial = random.below(4) == 0;
    if (partial) bad_sample = 0.0;  // Without the figure that contradicts it, a bad sample is not detected.
  }
  Troubles() = default;
};

struct ModelReplica {
  std::uint32_t id;
  ReplicaState state;
  double until;  // it is ready, or gone
  std::uint64_t generated = 0;
};

// A pool that starts and drains replicas, and what was wrong at this tick.
struct ModelPool {
  std::uint32_t target = 1, min = 1, max = 1, gpus = 1;
  std::uint64_t actions_failed = 0, requests_failed = 0;
  std::vector<ModelReplica> replicas;
  std::uint32_t next_id = 0;
  double kv = 0.2;
  bool more_ready = false;  // since the tick before
  bool untrusted = false, hot = false, queue = false, failed = false, manual = false;

  [[nodiscard]] std::uint32_t count(ReplicaState state) const {
    return static_cast<std::uint32_t>(
        std::count_if(replicas.begin(), replicas.end(), [&](const ModelReplica& r) { return r.state == state; }));
  }
  void reconcile(double t) {
    std::uint32_t serving = count(ReplicaState::kStarting) + count(ReplicaState::kReady);
    for (; serving < target; ++serving) replicas.push_back({next_id++, ReplicaState::kStarting, t + 40.0});
    for (const ReplicaState victim : {ReplicaState::kStarting, ReplicaState::kReady})
      for (ModelReplica& replica : replicas)
        if (serving > target && replica.state == victim) {
          replica.state = ReplicaState::kDraining;
          replica.until = victim == ReplicaState::kStarting ? t : t + 20.0;
          --serving;
        }
  }
  void advance(double t, const Troubles& troubles, RandomStream& random) {
    more_ready = false;
    std::erase_if(replicas, [&](const ModelReplica& r) { return r.state == ReplicaState::kDraining && r.until <= t; });
    for (ModelReplica& replica : replicas)
      if (replica.state == ReplicaState::kStarting && replica.until <= t) {
        replica.state = ReplicaState::kReady;
        more_ready = true;
      }
    const std::size_t died = std::erase_if(replicas, [&](const ModelReplica& r) {
      return r.state == ReplicaState::kStarting && random.uniform() < 0.3 * troubles.dying;
    });
    actions_failed += died;
    reconcile(t);
  }
};

// One of the many ways in which a sample is not to be trusted.
void spoil(std::optional<EngineSample>& sample, RandomStream& random) {
  const auto second = std::chrono::seconds{1};
  switch (random.below(8)) {
    case 0: sample.reset(); break;
    case 1: sample->sampled_at -= 31 * second; break;
    case 2: sample->sampled_at += second; break;
    case 3: sample->kv_used_tokens = 2 * *sample->kv_capacity_tokens; break;
    case 4: sample->generation_tokens_total = 0; break;
    case 5: sample->kv_used_tokens = sample->scheduled_kv_tokens = 0; break;  // and yet it runs something
    case 6: sample->queued_prefill_tokens = 100; break;                       // Tokens without a queued request.
    case 7: sample->oldest_queued_age = -second; break;
  }
}

// Leaves a subset of the figures that an engine reports, mostly the same one at each tick.
void drop_figures(EngineSample& sample, std::uint32_t replica, RandomStream& random) {
  sample.kv_share = sample.kv_usage();
  RandomStream of_make{replica % 7};
  const auto drops = [&] { return of_make.below(3) == 0 || random.below(200) == 0; };
  for (auto* figure :
       {&sample.queued_prefill_tokens, &sample.inflight_prefill_tokens, &sample.scheduled_kv_tokens,
        &sample.queued_kv_tokens, &sample.prompt_tokens_total, &sample.prefix_hit_tokens_total,
        &sample.generation_tokens_total, &sample.completed_total, &sample.preemptions_total, &sample.evictions_total})
    if (drops()) figure->reset();
  if (drops()) sample.oldest_queued_age.reset();
  if (drops()) sample.batch_merge_efficiency.reset();
  // A fleet in which an engine reports no KV usage never shrinks; it is rare, so that other rules are tested, too.
  if (drops()) sample.kv_capacity_tokens.reset();
  if (random.below(500) != 0) return;
  sample.kv_share.reset();
  sample.kv_used_tokens.reset();
}

PoolObservation observed(ModelPool& pool, core::Instant now, const Troubles& troubles, RandomStream& random) {
  const auto happens = [&](double share) { return share > 0.0 && random.uniform() < share; };
  PoolObservation seen;
  seen.target_replicas = pool.target;
  seen.min_replicas = pool.min;
  seen.max_replicas = pool.max;
  seen.gpus_per_replica = pool.gpus;
  seen.starting = pool.count(ReplicaState::kStarting);
  seen.ready = pool.count(ReplicaState::kReady);
  seen.draining = pool.count(ReplicaState::kDraining);
  pool.hot = happens(troubles.hot);
  pool.queue = false;
  const bool queue = happens(troubles.queue), short_queue = happens(troubles.short_queue);
  pool.failed = happens(troubles.failures);
  pool.untrusted = seen.ready == 0;
  pool.requests_failed += pool.failed ? 1 : 0;
  pool.kv = pool.hot ? 0.76 : std::clamp(pool.kv + random.uniform(-0.1, 0.1), 0.01, 0.75);
  bool spoilt = happens(troubles.bad_sample);
  for (ModelReplica& replica : pool.replicas) {
    auto& entry = seen.replicas.emplace_back();
    entry.replica = replica.id;
    entry.state = replica.state;
    if (replica.state == ReplicaState::kStarting) continue;
    EngineSample sample = testing::engine(0, 1, static_cast<std::uint64_t>(std::llround(1000.0 * pool.kv)));
    sample.sampled_at = now;
    sample.scheduled_kv_tokens = sample.kv_used_tokens;
    sample.generation_tokens_total = ++replica.generated;
    if (queue || short_queue) {
      sample.queued_requests = 1;
      sample.oldest_queued_age = std::chrono::milliseconds{queue ? 600 : 100};
    }
    if (troubles.partial) drop_figures(sample, replica.id, random);
    if (replica.state == ReplicaState::kReady) {
      // A queue of unknown age waits, and unknown KV usage is not low.
      pool.queue = pool.queue || queue || (short_queue && !sample.oldest_queued_age);
      pool.untrusted = pool.untrusted || !sample.kv_usage();
    }
    entry.sample = sample;
    // The first sample of a replica cannot contradict what came before.
    if (!spoilt || replica.state != ReplicaState::kReady || replica.generated < 2) continue;
    spoil(entry.sample, random);
    pool.untrusted = true;
    spoilt = false;
  }
  if (happens(troubles.unrouted)) {
    seen.unrouted_requests = 1;
    pool.queue = true;
  }
  if (happens(troubles.counts)) {
    ++seen.ready;
    pool.untrusted = true;
  }
  if (happens(troubles.bad_latency)) seen.last_minute.ttft = {5, std::numeric_limits<double>::quiet_NaN(), 1, 1, 1, 1};
  seen.failed_total = pool.requests_failed;
  seen.actions_failed_total = pool.actions_failed;
  return seen;
}

// The promises for one pool.
class PoolWatch {
 public:
  void check(double t, const ModelPool& pool, std::uint32_t proposal, bool clock_jumped, const PoolDecision& decision) {
    note(t, pool, proposal);
    const std::uint32_t current = pool.target;
    ASSERT_EQ(decision.current, current);
    ASSERT_GE(decision.target, pool.min);
    ASSERT_LE(decision.target, pool.max);
    const bool within = current >= pool.min && current <= pool.max;
    const std::uint32_t kept = std::clamp(current, pool.min, pool.max);
    if (clock_jumped || t < manual_until_ || t < cooldown_until_) {
      ASSERT_EQ(decision.target, kept) << "holds";
    }
    if (decision.target > kept) check_growth(current, decision);
    if (decision.target < kept && within) check_shrinking(t, pool, decision);
    if (decision.target < current) shrunk_at_ = t;
    seen_ = current;
    asked_ = decision.target;
  }
  [[nodiscard]] std::uint32_t asked() const { return asked_; }
  [[nodiscard]] std::uint32_t seen() const { return seen_; }
  std::uint64_t grown = 0, shrunk = 0;

 private:
  void note(double t, const ModelPool& pool, std::uint32_t proposal) {
    targets_.emplace_back(t, pool.target);
    while (targets_.front().first <= t - 60.0) targets_.pop_front();
    proposals_.emplace_back(t, proposal);
    while (proposals_.front().first <= t - 300.0) proposals_.pop_front();
    if (pool.failed) requests_failed_at_ = t;
    if (pool.manual) manual_until_ = t + 600.0;
    if (pool.more_ready || (asked_ < seen_ && pool.target == asked_)) {
      in_a_row_ = 0;
      cooldown_until_ = t;
    }
    if (t > 0.0 && pool.actions_failed > actions_failed_) {
      cooldown_until_ = t + std::min(960.0, 120.0 * std::pow(2.0, in_a_row_));
      ++in_a_row_;
    }
    actions_failed_ = pool.actions_failed;
  }
  void check_growth(std::uint32_t current, const PoolDecision& decision) {
    ++grown;
    std::uint32_t least = current;
    for (const auto& target : targets_) least = std::min(least, target.second);
    ASSERT_LE(decision.target, std::max(3 * least, least + 4)) << "grows no faster";
  }
  void check_shrinking(double t, const ModelPool& pool, const PoolDecision& decision) {
    ++shrunk;
    ASSERT_FALSE(pool.untrusted) << "trusts telemetry";
    ASSERT_FALSE(pool.hot || pool.queue);
    ASSERT_EQ(pool.count(ReplicaState::kStarting) + pool.count(ReplicaState::kDraining), 0U);
    ASSERT_GT(t, requests_failed_at_ + 299.0) << "no failures";
    ASSERT_GT(t, manual_until_ + 284.0) << "no jump after a manual change";
    ASSERT_GE(t - shrunk_at_, 60.0) << "a step a minute";
    ASSERT_LE(pool.target - decision.target, std::max(1.0, 0.34 * pool.target)) << "a step only";
    for (const auto& proposal : proposals_)
      ASSERT_GE(decision.target, std::min(proposal.second, pool.target)) << "stabilises";
    const std::uint32_t ready = pool.count(ReplicaState::kReady);
    ASSERT_GE(std::min(ready, decision.target), std::max(1U, pool.min)) << "enough are ready";
    ASSERT_LE(pool.kv * ready / decision.target, 0.8 + 1e-3) << "the rest carries it";
  }

  std::deque<std::pair<double, std::uint32_t>> targets_, proposals_;
  double shrunk_at_ = kLongAgo, requests_failed_at_ = kLongAgo, manual_until_ = kLongAgo, cooldown_until_ = kLongAgo;
  std::uint64_t actions_failed_ = 0;
  int in_a_row_ = 0;
  std::uint32_t asked_ = 0, seen_ = 0;
};

// Two pools, a clock, and proposals that walk at random.
class Sequence {
 public:
  explicit Sequence(std::uint64_t seed) : random_(seed), troubles_(random_) {
    std::uint64_t gpus = 0;
    for (ModelPool& pool : pools_) {
      pool.min = below(1, 4);
      pool.max = below(10, 40);
      pool.gpus = below(1, 4);
      pool.target = below(pool.min, 16);
      pool.target = std::min(pool.target, pool.max);
      pool.kv = random_.uniform(0.05, 0.7);
      for (; pool.next_id < pool.target; ++pool.next_id)
        pool.replicas.push_back({pool.next_id, ReplicaState::kReady, 0.0});
      gpus += pool.gpus * pool.target;
    }
    GuardrailOptions options;
    if (random_.below(2) == 0) options.gpu_budget = budget_ = gpus / 2 + random_.below(2 * gpus);
    guardrails_ = FleetGuardrails{options};
    signals::SanitizerOptions watching;
    watching.interval = core::from_seconds(kTickS);
    sanitizer_ = signals::Sanitizer{watching};
    for (std::size_t i = 0; i < 2; ++i) proposals_[i] = pools_[i].target;
  }

  void chaos() {
    walk();
    step();
  }
  void calm() {
    troubles_ = {};
    for (ModelPool& pool : pools_) pool.kv = 0.01;
  }
  // Ticks until the fleet is what is wished, or as much of it as the budget allows; SIZE_MAX: never.
  std::size_t reach(bool most) {
    for (std::size_t i = 0; i < 2; ++i) proposals_[i] = most ? pools_[i].max : pools_[i].min;
    for (std::size_t tick = 0; tick < 400; ++tick) {
      if (settled()) return tick;
      for (ModelPool& pool : pools_) pool.kv = 0.01;
      step();
      if (::testing::Test::HasFatalFailure()) break;
    }
    return SIZE_MAX;
  }

  std::map<std::string, std::uint64_t> limits;
  [[nodiscard]] std::uint64_t grown() const { return watches_[0].grown + watches_[1].grown; }
  [[nodiscard]] std::uint64_t shrunk() const { return watches_[0].shrunk + watches_[1].shrunk; }

 private:
  std::uint32_t below(std::uint32_t low, std::uint32_t high) {
    return low + static_cast<std::uint32_t>(random_.below(high - low + 1));
  }
  bool happens(double share) { return share > 0.0 && random_.uniform() < share; }

  // Proposals stay for a while, then drift or jump.
  void walk() {
    for (std::uint32_t& proposal : proposals_) {
      const std::uint64_t mood = random_.below(60);
      if (mood == 0) proposal = below(0, 60);
      if (mood == 1) proposal = below(0, 3);
      if (mood < 6) proposal = std::max(1U, proposal + below(0, 4)) - std::min(proposal, 2U);
    }
  }
  void disturb(ModelPool& pool, const PoolWatch& watch) {
    pool.manual = false;
    if (happens(troubles_.bounds)) pool.max = std::max(pool.min, below(8, 40));
    if (happens(troubles_.bounds)) pool.min = std::min(pool.max, below(1, 4));
    if (t_ == 0.0 || pool.target != watch.asked() || !happens(troubles_.manual)) return;
    const std::uint32_t set = below(pool.min, pool.max);
    if (set == watch.asked() || set == watch.seen()) return;
    pool.manual = true;
    pool.target = set;
    pool.reconcile(t_);
  }
  ClockState move_clock() {
    t_ += kTickS;
    if (!happens(troubles_.jump)) return ClockState::kSteady;
    const bool back = random_.below(2) == 0;
    offset_ += back ? -random_.uniform(16.0, 4000.0) : random_.uniform(150.0, 4000.0);
    return back ? ClockState::kWentBack : ClockState::kLeapt;
  }

  void step() {
    const ClockState clock = t_ < 0.0 ? (t_ = 0.0, ClockState::kSteady) : move_clock();
    signals::Observation seen;
    seen.now = at_s(1e6 + t_ + offset_);
    for (std::size_t i = 0; i < 2; ++i) {
      disturb(pools_[i], watches_[i]);
      pools_[i].advance(t_, troubles_, random_);
      seen.pools.push_back(observed(pools_[i], seen.now, troubles_, random_));
    }
    const signals::Findings& findings = sanitizer_.clean(seen);
    ASSERT_STREQ(to_string(findings.clock), to_string(clock));
    for (const PoolObservation& pool : seen.pools) ASSERT_FALSE(std::isnan(pool.last_minute.ttft.mean_ms));
    std::vector<PoolDecision> proposals(2);
    for (std::size_t i = 0; i < 2; ++i) proposals[i].target = proposals_[i];
    const auto decisions = guardrails_.apply(seen, proposals, findings.clock);
    check(seen, clock, decisions);
    if (!::testing::Test::HasFatalFailure()) apply(decisions);
  }

  void check(const signals::Observation& seen, ClockState clock, const std::vector<PoolDecision>& decisions) {
    std::uint64_t targets = 0, held = 0;
    bool grows = false;
    for (std::size_t i = 0; i < 2; ++i) {
      const ModelPool& pool = pools_[i];
      const auto serving = static_cast<std::uint32_t>(pool.replicas.size()) - pool.count(ReplicaState::kDraining);
      targets += std::uint64_t{pool.gpus} * pool.target;
      held += std::uint64_t{pool.gpus} *
              (std::max({decisions[i].target, pool.target, serving}) + pool.count(ReplicaState::kDraining));
      grows = grows || decisions[i].target > std::max(pool.target, pool.min);
    }
    if (budget_ && grows) {
      ASSERT_LE(held, *budget_) << "stays within the budget";
    }
    const bool over = budget_ && targets > *budget_;
    for (std::size_t i = 0; i < 2; ++i) {
      const std::uint32_t proposal = over ? 0 : proposals_[i];  // over the budget, proposals are lowered
      watches_[i].check(t_, pools_[i], proposal, clock != ClockState::kSteady, decisions[i]);
      if (::testing::Test::HasFatalFailure()) return;
      if (decisions[i].target != proposals_[i]) {
        ASSERT_NE(decisions[i].limited_by, Limit::kNone);
      }
      ++limits[to_string(decisions[i].limited_by)];
    }
    ASSERT_EQ(seen.pools.size(), 2U);
  }

  void apply(const std::vector<PoolDecision>& decisions) {
    for (std::size_t i = 0; i < 2; ++i) {
      if (decisions[i].target == pools_[i].target) continue;
      if (happens(troubles_.refused)) {
        ++pools_[i].actions_failed;
        continue;
      }
      pools_[i].target = decisions[i].target;
      pools_[i].reconcile(t_);
    }
  }

  [[nodiscard]] bool settled() const {
    std::uint64_t gpus = 0, targets = 0, least = 0;
    for (const ModelPool& pool : pools_) {
      gpus += std::uint64_t{pool.gpus} * pool.replicas.size();
      targets += std::uint64_t{pool.gpus} * pool.target;
      least += std::uint64_t{pool.gpus} * pool.min;
    }
    if (budget_ && targets > std::max(least, *budget_)) return false;
    bool reached = true, full = false;
    for (std::size_t i = 0; i < 2; ++i) {
      if (pools_[i].target == proposals_[i]) continue;
      reached = false;
      full = full || (budget_ && pools_[i].target < proposals_[i] && gpus + pools_[i].gpus > *budget_);
    }
    return reached || full;
  }

  RandomStream random_;
  Troubles troubles_;
  std::array<ModelPool, 2> pools_;
  std::array<PoolWatch, 2> watches_;
  std::array<std::uint32_t, 2> proposals_{};
  std::optional<std::uint64_t> budget_;
  FleetGuardrails guardrails_;
  signals::Sanitizer sanitizer_;
  double t_ = -1.0, offset_ = 0.0;  // true time, and what the clock adds to it
};

TEST(GuardrailsProperty, InvariantsHoldInRandomWorlds) {
  std::map<std::string, std::uint64_t> limits;
  std::uint64_t grown = 0, shrunk = 0;
  for (std::uint64_t seed = 0; seed < 1200; ++seed) {
    SCOPED_TRACE(seed);
    Sequence sequence{seed};
    for (int tick = 0; tick < 160; ++tick) {
      sequence.chaos();
      if (HasFatalFailure()) return;
    }
    for (const auto& [limit, count] : sequence.limits) limits[limit] += count;
    grown += sequence.grown();
    shrunk += sequence.shrunk();
  }
  EXPECT_GT(grown, 5'000U);
  EXPECT_GT(shrunk, 5'000U);
  for (const Limit limit : {Limit::kNone, Limit::kMinReplicas, Limit::kMaxReplicas, Limit::kGrowthRate,
                            Limit::kShrinkRate, Limit::kStabilization, Limit::kCooldown, Limit::kStaleTelemetry,
                            Limit::kStartingOrDraining, Limit::kHotKvCache, Limit::kQueueWaits, Limit::kFailures,
                            Limit::kConsolidation, Limit::kGpuBudget, Limit::kManualChange, Limit::kClockJump})
    EXPECT_GT(limits[to_string(limit)], 20U) << to_string(limit);
}

TEST(GuardrailsProperty, EveryProposalIsReachedOnceAllIsQuiet) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(seed);
    Sequence sequence{seed};
    for (int tick = 0; tick < 60; ++tick) sequence.chaos();
    sequence.calm();
    EXPECT_NE(sequence.reach(false), SIZE_MAX) << "shrinks";
    EXPECT_NE(sequence.reach(true), SIZE_MAX) << "grows";
    EXPECT_NE(sequence.reach(false), SIZE_MAX) << "shrinks again";
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace penstock::planner
