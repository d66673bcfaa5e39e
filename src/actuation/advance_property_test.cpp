// A random world with crashes, hangs, missing reports, slow gateways and planners that are killed between any two
// actions: checks safety at all times and completion once the world behaves.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "actuation/advance.h"
#include "core/random.h"

namespace penstock::actuation {
namespace {

using core::Duration;
using core::Instant;
using namespace std::chrono_literals;

// An engine process with the requests that are in transit to it and in it.
struct Engine {
  Process process;
  std::vector<std::uint16_t> ports;
  Instant healthy_at;
  std::uint32_t at_gateway = 0;  // Open requests at the gateway; some may not have reached the engine.
  std::uint32_t in_engine = 0;
  std::uint32_t transfers = 0;
  bool routed = false, wanted_routed = false;  // The gateway's current and requested routing.
  bool hung = false;
  bool asleep = false;
  std::optional<Instant> wakes_at;
  std::string role;  // The pool whose role it has.
  std::optional<Instant> switches_at;
  std::optional<Instant> ends_at;
};

class World {
 public:
  explicit World(std::uint64_t seed) : random_(seed) {
    limits.start_deadline = 60s;
    limits.warm_up_deadline = 10s;
    limits.drain_deadline = 90s;
    limits.unhealthy_drain_deadline = 20s;
    limits.stop_deadline = 10s;
    limits.unhealthy_time = 15s;
    limits.surge = 1 + static_cast<std::uint32_t>(random_.below(2));
    limits.warm_up = random_.below(2) == 0;
    limits.take_back = random_.below(4) != 0;  // As in a simulation.
    if (random_.below(2) == 0) wants[0].role_switch = {"decode", 5s, 20s};
    if (random_.below(2) == 0) wants[1].role_switch = {"prefill", 5s, 20s};
  }

  void second() {
    now += 1s;
    move_world();
    if (misbehaves && random_.below(40) == 0)
      wants[random_.below(2)].replicas = static_cast<std::uint32_t>(random_.below(6));
    if (misbehaves && random_.below(60) == 0)
      wants[random_.below(2)].asleep = static_cast<std::uint32_t>(random_.below(4));
    if (misbehaves && random_.below(150) == 0) wants[random_.below(2)].revision = random_.below(2) == 0 ? "r1" : "r2";
    if (misbehaves && random_.below(60) == 0) return restart();
    tick();
  }

  bool misbehaves = true;
  FleetState fleet;
  Limits limits;
  std::vector<PoolWant> wants{{"prefill", 2, "r1"}, {"decode", 1, "r1"}};
  std::map<std::uint32_t, Engine> engines;
  Instant now = core::kStart;
  std::uint64_t died_with_work = 0, resumed = 0, switched = 0;

 private:
  bool chance(std::uint64_t one_in) { return misbehaves && random_.below(one_in) == 0; }

  void move_world() {
    for (auto at = engines.begin(); at != engines.end();) {
      Engine& engine = at->second;
      if (random_.below(2) == 0) engine.routed = engine.wanted_routed;  // The gateway lags.
      if (engine.wakes_at && *engine.wakes_at <= now) engine.asleep = false;
      if (engine.switches_at && *engine.switches_at <= now) engine.switches_at.reset();
      if (engine.routed && !engine.hung && random_.below(3) == 0) {
        EXPECT_FALSE(engine.asleep) << "a request reaches an engine that is asleep";
        EXPECT_FALSE(engine.switches_at) << "a request reaches an engine that changes its role";
        ++engine.at_gateway;
      }
      if (!engine.hung) {
        if (engine.at_gateway > engine.in_engine && random_.below(2) == 0) ++engine.in_engine;
        if (engine.in_engine > 0 && random_.below(3) == 0) {
          --engine.in_engine;
          --engine.at_gateway;
          engine.transfers += random_.below(2) == 0 ? 1 : 0;
        }
        if (engine.transfers > 0 && random_.below(4) == 0) --engine.transfers;
      }
      if (chance(400)) engine.ends_at = now;
      if (chance(400)) engine.hung = true;
      at = engine.ends_at && *engine.ends_at <= now ? engines.erase(at) : std::next(at);
    }
  }

  std::vector<Seen> look() {
    std::vector<Seen> seen;
    for (const Replica& replica : fleet.replicas) {
      if (has_ended(replica.stage) || !replica.process) continue;
      Seen one{replica.id};
      const auto found = engines.find(replica.id);
      if (found == engines.end() || !(found->second.process == *replica.process)) {
        one.process = ProcessSeen::kGone;
      } else {
        const Engine& engine = found->second;
        one.process = ProcessSeen::kAlive;
        const bool healthy = !engine.hung && now >= engine.healthy_at;
        const bool switching = engine.switches_at || engine.role != replica.pool;
        if (!chance(20)) one.engine = {now, healthy, {}, engine.asleep, switching};
        if (one.engine && healthy && !chance(20)) one.engine->open = OpenWork{engine.in_engine, engine.transfers};
        if (!chance(20)) one.gateway = {now, engine.routed, engine.at_gateway};
        if (replica.stage == Stage::kWarming && random_.below(3) == 0) one.warm_up = {{4, 4}};
      }
      seen.push_back(one);
    }
    return seen;
  }

  void tick() {
    const FleetState before = fleet;
    const auto seen = look();
    const Advance result = advance(fleet, wants, seen, limits, now);
    check_ends(before);
    check_pools(before, result.steps);
    saved_ = fleet;
    // The planner may be killed before, between and after its steps; the next one continues from the saved state.
    const std::size_t done = chance(60) ? random_.below(result.steps.size() + 1) : result.steps.size();
    bool killed = done < result.steps.size();
    for (std::size_t i = 0; i < done && !killed; ++i) killed = !take(result.steps[i], before);
    if (killed) restart();
  }

  void restart() {
    ++resumed;
    fleet = saved_;
    for (const Step& step : resume(fleet))
      if (!take(step, fleet)) return restart();
  }

  // Returns false if the planner was killed during the steps.
  bool take(const Step& step, const FleetState& before) {
    Replica& replica = *fleet.find(step.replica);
    const auto found = engines.find(step.replica);
    Engine* const engine = found == engines.end() ? nullptr : &found->second;
    switch (step.kind) {
      case StepKind::kStart: return launch(replica);
      case StepKind::kWarmUp: break;
      case StepKind::kAdmit:
        if (engine != nullptr) engine->wanted_routed = true;
        break;
      case StepKind::kDrain:
        if (engine != nullptr) engine->wanted_routed = false;
        break;
      case StepKind::kSleep:
        check_stop(step, before);
        if (engine != nullptr) {
          engine->asleep = true;
          engine->wakes_at.reset();
        }
        break;
      case StepKind::kWake:
        if (engine != nullptr) engine->wakes_at = now + std::chrono::seconds{1 + random_.below(8)};
        break;
      case StepKind::kSwitch:
        check_stop(step, before);
        if (engine == nullptr) break;
        if (engine->role != replica.pool) engine->switches_at = now + std::chrono::seconds{1 + random_.below(8)};
        engine->role = replica.pool;
        switched += step.why == StepReason::kResumed ? 0 : 1;
        break;
      case StepKind::kStop:
        check_stop(step, before);
        if (engine != nullptr && !engine->hung) engine->ends_at = now + std::chrono::seconds{random_.below(5)};
        break;
      case StepKind::kKill:
        if (engine != nullptr) engine->ends_at = now;
        break;
    }
    return true;
  }

  bool launch(Replica& replica) {
    // Started by a planner that was killed before it saved the process.
    const auto running = engines.find(replica.id);
    if (running == engines.end()) {
      if (replica.ports.empty() && !reserve_port(fleet, replica.id, {9000, 9060}, [](std::uint16_t) { return true; })) {
        (void)start_failed(fleet, replica.id, "no port", limits, now);
        return true;
      }
      saved_ = fleet;  // Ports are saved before a process exists.
      if (chance(15)) {
        (void)start_failed(fleet, replica.id, "refused", limits, now);
        saved_ = fleet;
        return true;
      }
      Engine engine;
      // Process numbers are reused.
      engine.process = {static_cast<std::int64_t>(random_.below(50)), next_ticks_++};
      engine.ports = replica.ports;
      engine.role = replica.pool;
      engine.healthy_at = now + std::chrono::seconds{chance(10) ? 1000 : random_.below(20)};
      for (const auto& [id, other] : engines)
        for (const std::uint16_t port : other.ports)
          EXPECT_EQ(std::count(engine.ports.begin(), engine.ports.end(), port), 0) << "port " << port << " twice";
      EXPECT_TRUE(launched_.insert(replica.id).second) << "replica " << replica.id << " started twice";
      engines.emplace(replica.id, engine);
      if (chance(20)) return false;  // The next planner finds the process.
    }
    started(fleet, replica.id, engines.at(replica.id).process, now);
    saved_ = fleet;
    return true;
  }

  void check_stop(const Step& step, const FleetState& before) {
    const auto found = engines.find(step.replica);
    if (found == engines.end() || step.why == StepReason::kResumed) return;
    const Engine& engine = found->second;
    const std::uint32_t open = engine.at_gateway + engine.in_engine + engine.transfers;
    const Replica* const drained = before.find(step.replica);
    if (step.why == StepReason::kUnhealthy) {
      ASSERT_TRUE(drained != nullptr && drained->stage == Stage::kDraining && drained->unhealthy_since);
      EXPECT_GE(now - *drained->unhealthy_since, limits.unhealthy_drain_deadline);
      EXPECT_EQ(engine.at_gateway, 0U) << "replica " << step.replica << " stopped while requests are answered";
      died_with_work += open > 0 ? 1 : 0;
      return;
    }
    if (step.why != StepReason::kDrainDeadline) {
      EXPECT_EQ(open, 0U) << "replica " << step.replica << " stopped with open work: " << to_string(step.why);
      return;
    }
    ASSERT_TRUE(drained != nullptr && drained->stage == Stage::kDraining);
    EXPECT_GE(now - drained->since, limits.drain_deadline);
    died_with_work += open > 0 ? 1 : 0;
  }

  void check_ends(const FleetState& before) {
    for (const Replica& replica : before.replicas) {
      const Replica* const after = fleet.find(replica.id);
      if (has_ended(replica.stage)) {
        EXPECT_TRUE(after == nullptr || after->stage == replica.stage) << "replica " << replica.id << " ended twice";
      } else {
        EXPECT_NE(after, nullptr) << "replica " << replica.id << " lost";
      }
    }
    for (const auto& [id, engine] : engines) {
      const Replica* const replica = fleet.find(id);
      ASSERT_NE(replica, nullptr) << "process of replica " << id << " lost";
      EXPECT_FALSE(has_ended(replica->stage)) << "replica " << id << " ended with a process";
    }
  }

  static bool is_staying(const Replica& replica) { return replica.stage <= Stage::kServing && !replica.to_sleep; }

  void check_pools(const FleetState& before, const std::vector<Step>& steps) {
    for (const PoolWant& want : wants) {
      std::uint32_t serving = 0, staying = 0, staying_before = 0, drains = 0, starts = 0, taken_back = 0;
      bool some_to_take_back = false;
      for (const Replica& replica : fleet.replicas) {
        if (replica.pool != want.pool || has_ended(replica.stage)) continue;
        serving += replica.stage == Stage::kServing ? 1 : 0;
        staying += is_staying(replica) ? 1 : 0;
        some_to_take_back |= limits.take_back && replica.stage == Stage::kDraining &&
                             replica.revision == want.revision && !replica.unhealthy_since;
      }
      for (const Replica& replica : before.replicas)
        staying_before += replica.pool == want.pool && is_staying(replica) ? 1 : 0;
      for (const Step& step : steps) {
        if (fleet.find(step.replica)->pool != want.pool) continue;
        drains += step.kind == StepKind::kDrain ? 1 : 0;
        starts += step.kind == StepKind::kStart && !fleet.find(step.replica)->to_sleep ? 1 : 0;
        taken_back += step.why == StepReason::kTakenBack ? 1 : 0;
      }
      if (drains > 0) {
        EXPECT_GE(serving, want.replicas) << "drained below the target";
      }
      if (starts > 0) {
        EXPECT_LE(staying, want.replicas + limits.surge) << "started too many";
        EXPECT_FALSE(some_to_take_back) << "started one while another could come back";
        const auto pool = std::find_if(before.pools.begin(), before.pools.end(),
                                       [&](const PoolState& p) { return p.name == want.pool; });
        if (pool != before.pools.end() && pool->start_after) {
          EXPECT_GE(now, *pool->start_after) << "started in a wait";
        }
      }
      EXPECT_LE(staying, std::max(staying_before, want.replicas + limits.surge) + taken_back);
    }
  }

  core::RandomStream random_;
  FleetState saved_;
  std::set<std::uint32_t> launched_;
  std::uint64_t next_ticks_ = 1;
};

class RandomWorld : public testing::TestWithParam<int> {};

TEST_P(RandomWorld, IsLedSafelyAndReachesItsTargetsOnceItBehaves) {
  std::uint64_t switched = 0;
  for (int i = 0; i < 25; ++i) {
    const std::uint64_t seed = static_cast<std::uint64_t>(GetParam() * 25 + i);
    SCOPED_TRACE("seed " + std::to_string(seed));
    World world{seed};
    for (int second = 0; second < 900; ++second) world.second();
    world.misbehaves = false;
    for (int second = 0; second < 1500; ++second) world.second();
    for (const PoolWant& want : world.wants) {
      std::uint32_t serving = 0, asleep = 0, others = 0;
      for (const Replica& replica : world.fleet.replicas) {
        if (replica.pool != want.pool || has_ended(replica.stage)) continue;
        const bool is_current = want.replicas == 0 || replica.revision == want.revision;
        const bool serves = is_current && replica.stage == Stage::kServing;
        const bool sleeps = is_current && replica.stage == Stage::kAsleep;
        (serves ? serving : sleeps ? asleep : others)++;
      }
      EXPECT_EQ(serving, want.replicas);
      EXPECT_EQ(asleep, want.asleep);
      EXPECT_EQ(others, 0U);
    }
    std::size_t wanted = 0;
    for (const PoolWant& want : world.wants) wanted += want.replicas + want.asleep;
    EXPECT_EQ(world.engines.size(), wanted);
    EXPECT_GT(world.resumed, 0U);
    switched += world.switched;
    if (!world.wants[0].role_switch && !world.wants[1].role_switch) {
      EXPECT_EQ(world.switched, 0U);
    }
    if (HasFailure()) return;
  }
  EXPECT_GT(switched, 0U);
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomWorld, testing::Range(0, 8));

}  // namespace
}  // namespace penstock::actuation
