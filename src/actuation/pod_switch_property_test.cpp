// Two Deployments with controllers that see everything late, planners that end at any moment, and lost writes: pods go
// from one to the other, no request is harmed, and both reach their numbers.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "actuation/pod_switch.h"
#include "core/random.h"

namespace penstock::actuation {
namespace {

using namespace std::chrono_literals;
using Kind = PodStepKind;

constexpr int kNoOwner = -1;

struct Pod {
  std::string name;
  int labels = 0, owner = 0;  // Of a Deployment.
  core::Instant created, ready_at, marked_since;
  bool is_ready = false, is_marked = false, has_moved = false;
  std::int64_t cost = 0;
  int role = 0;                  // Of the engine.
  std::optional<int> requested;  // The annotation.
  std::uint32_t open = 0;
  int version = 0;
  bool has_confirmed = false;  // A planner knows that the engine has the requested role.
};

struct Deployment {
  std::uint32_t replicas = 3;
  std::uint32_t of_set = 3, seen_by_set = 3, counted = 3;  // Of its ReplicaSet, which its controller follows.
  bool waits = false;  // The controller has made or deleted pods that it does not see yet.
};

class World {
 public:
  World(std::uint64_t seed, bool has_faults) : random_(seed), has_faults_(has_faults) {
    for (int side : {0, 1})
      for (int i = 0; i < 3; ++i) add(side).is_ready = true;
    cache_ = pods_;
    watched_ = {pods_, pods_};
  }

  void run(int ticks, bool changes) {
    for (int tick = 0; tick < ticks && !testing::Test::HasFatalFailure(); ++tick) {
      now_ = now_ + 10ms;
      if (changes && random_.below(1500) == 0 && (has_faults_ || is_settled())) change_targets();
      live();
      for (int side : {0, 1})
        if (random_.below(2) == 0) deployments_[side].of_set = deployments_[side].replicas;
      if (random_.below(2) == 0) see_pods();
      for (int side : {0, 1})
        if (random_.below(2) == 0) sync(side);
      for (int side : {0, 1})
        if (random_.below(3) == 0) watched_[side] = pods_;
      if (has_faults_ && changes && random_.below(400) == 0) restart_planner();
      for (int side : {0, 1})
        if (random_.below(4) == 0) plan(side);
    }
  }

  // All pods serve with the role of their Deployment, and each has as many as it is to have.
  [[nodiscard]] bool is_settled() const {
    std::array<std::uint32_t, 2> serving{};
    for (const Pod& pod : pods_) {
      if (pod.owner != pod.labels || pod.role != pod.labels || !pod.is_ready || pod.is_marked) return false;
      ++serving[pod.labels];
    }
    return serving == wanted_ && deployments_[0].replicas == wanted_[0] && deployments_[1].replicas == wanted_[1];
  }

  int moves = 0, ready_deleted = 0, started = 0;

 private:
  Pod& add(int side) {
    Pod& pod = pods_.emplace_back();
    pod.name = std::string(side == 0 ? "p-" : "d-") + std::to_string(names_++);
    pod.labels = pod.owner = pod.role = side;
    pod.created = now_;
    pod.ready_at = now_ + 60s;
    return pod;
  }
  Pod* find(const std::string& name) {
    const auto found = std::find_if(pods_.begin(), pods_.end(), [&](const Pod& pod) { return pod.name == name; });
    return found == pods_.end() ? nullptr : &*found;
  }

  void change_targets() {
    const std::uint32_t total = wanted_[0] + wanted_[1];
    wanted_[0] = static_cast<std::uint32_t>(1 + random_.below(total - 1));
    wanted_[1] = total - wanted_[0];
  }

  // Requests come and end; a gateway routes to a pod by its labels, and sees marks at once.
  void live() {
    for (Pod& pod : pods_) {
      if (!pod.is_ready && now_ >= pod.ready_at) {
        pod.is_ready = true;
        ++started;
      }
      if (pod.is_ready && !pod.is_marked && random_.below(40) == 0) {
        ASSERT_EQ(pod.role, pod.labels) << pod.name << " gets requests that its engine cannot serve";
        ++pod.open;
      }
      if (random_.below(100) < pod.open) --pod.open;
    }
  }

  // ---- the controller of ReplicaSets, which knows pods and sets from two watches -----------------------------------

  void see_pods() {
    cache_ = pods_;
    for (Deployment& each : deployments_) each.waits = false;
  }
  void sync(int side) {
    Deployment& deployment = deployments_[side];
    deployment.seen_by_set = deployment.of_set;
    if (deployment.waits) return;
    std::vector<Pod> mine;
    for (const Pod& cached : cache_) {
      Pod* pod = find(cached.name);
      if (cached.owner == side && cached.labels != side && pod != nullptr && pod->owner == side) pod->owner = kNoOwner;
      if (cached.owner == kNoOwner && cached.labels == side && pod != nullptr) {
        pod->owner = side;
        mine.push_back(cached);
      }
      if (cached.owner == side && cached.labels == side) mine.push_back(cached);
    }
    deployment.counted = static_cast<std::uint32_t>(mine.size());
    for (std::size_t i = mine.size(); i < deployment.seen_by_set; ++i) {
      add(side);
      deployment.waits = true;
    }
    std::stable_sort(mine.begin(), mine.end(), [](const Pod& left, const Pod& right) {
      return std::tuple{left.is_ready, left.cost, right.created} < std::tuple{right.is_ready, right.cost, left.created};
    });
    for (std::size_t i = 0; i + deployment.seen_by_set < mine.size(); ++i) {
      const Pod* pod = find(mine[i].name);
      deployment.waits = true;
      if (pod == nullptr) continue;
      ASSERT_EQ(pod->open, 0U) << pod->name << " is deleted with open requests";
      ready_deleted += pod->is_ready ? 1 : 0;
      std::erase_if(pods_, [&](const Pod& each) { return each.name == mine[i].name; });
    }
  }

  // --- the planner ---------------------------------------------------------------------------------------------------

  void restart_planner() {
    states_ = {};
    for (Pod& pod : pods_) pod.has_confirmed = false;
  }
  TargetSeen observe(int side) {
    TargetSeen seen;
    const Deployment& deployment = deployments_[side];
    seen.replicas = deployment.replicas;
    seen.existing = deployment.counted;
    seen.is_own_write = true;
    seen.gateway_at = now_;
    seen.is_settled = deployment.seen_by_set == deployment.replicas;
    const auto active =
        std::count_if(watched_[side].begin(), watched_[side].end(), [&](const Pod& pod) { return pod.labels == side; });
    std::set<std::string> gone;  // The watch of the other side is ahead.
    for (const Pod& pod : watched_[1 - side]) {
      if (pod.labels == side) continue;
      if (pod.owner == side) ++seen.departing;
      if (pod.owner != side) seen.released.insert(pod.name);
    }
    for (const Pod& pod : watched_[side])
      for (const Pod& other : watched_[1 - side])
        if (other.name == pod.name && other.labels != side && other.version > pod.version) gone.insert(pod.name);
    for (const Pod& pod : watched_[side]) {
      if (pod.labels != side || gone.contains(pod.name)) continue;
      const bool is_joining = pod.has_moved && (pod.owner != side || active > std::int64_t{seen.replicas});
      if (is_joining) {
        ++seen.joining;
        continue;
      }
      PodSeen& made = seen.pods.emplace_back();
      made.name = pod.name;
      made.is_scheduled = made.can_switch = true;
      made.is_ready = pod.is_ready;
      made.is_marked = pod.is_marked;
      made.marked_since = pod.marked_since;
      made.deletion_cost = pod.cost;
      made.created_s = std::chrono::duration_cast<std::chrono::seconds>(pod.created - core::kStart).count();
      const Pod* now = find(pod.name);
      const std::uint32_t open = now == nullptr ? 0 : now->open;
      made.gateway = GatewaySeen{now_, pod.is_ready && !pod.is_marked, open};
      made.engine = EngineSeen{now_ + 1ms, true, OpenWork{open, 0}};
      made.has_role = !pod.requested || *pod.requested == side;
      made.is_committed = pod.requested == 1 - side;
      made.has_next_role = made.is_committed && now != nullptr && now->has_confirmed && now->role == 1 - side;
    }
    seen.departing += static_cast<std::uint32_t>(
        std::erase_if(seen.pods, [&](const PodSeen& each) { return states_[side].moved.contains(each.name); }));
    return seen;
  }
  void plan(int side) {
    TargetSeen own = observe(side), other = observe(1 - side);
    const ExchangeSide from{states_[side], own, wanted_[side]}, to{states_[1 - side], other, wanted_[1 - side]};
    (void)exchange(from, to, switch_, now_);
    const auto asked = exchange(to, from, switch_, now_);
    for (const PodStep& step : advance(states_[side], asked, own, limits_, now_).steps) {
      if (has_faults_ && random_.below(5) == 0) continue;  // A conflict.
      run(side, step, own);
    }
  }
  void run(int side, const PodStep& step, const TargetSeen& seen) {
    if (step.kind == Kind::kScale) {
      if (deployments_[side].replicas != seen.replicas) return;
      deployments_[side].replicas = step.replicas;
      return scaled(states_[side], seen, step);
    }
    Pod* pod = find(step.pod);
    if (pod == nullptr) return;
    ++pod->version;
    const auto mark = [&](bool is_marked, std::int64_t cost) {
      if (is_marked != pod->is_marked) pod->marked_since = now_;
      pod->is_marked = is_marked;
      pod->has_moved = false;
      pod->cost = cost;
    };
    switch (step.kind) {
      case Kind::kMark: return mark(true, kDrainingCost);
      case Kind::kDrained: return mark(true, kDrainedCost);
      case Kind::kUnmark: return mark(false, 0);
      case Kind::kSwitch:
        if (pod->requested != 1 - side) {
          pod->requested = 1 - side;
          return;
        }
        if (random_.below(8) == 0 && pod->open == 0) pod->role = 1 - side, pod->has_confirmed = true;
        return;
      case Kind::kRestore:
        if (random_.below(8) == 0 && pod->open == 0) pod->role = side, pod->requested = side, pod->has_confirmed = true;
        return;
      case Kind::kMove:
        pod->labels = 1 - side;
        pod->has_moved = true;
        moved(states_[side], seen, step);
        ++moves;
        return;
      case Kind::kScale: return;
    }
  }

  core::RandomStream random_;
  const bool has_faults_;
  core::Instant now_ = core::kStart + 100s;
  int names_ = 0;
  std::vector<Pod> pods_, cache_;
  std::array<std::vector<Pod>, 2> watched_;  // By the watches of the planner.
  std::array<Deployment, 2> deployments_;
  std::array<PodScaling, 2> states_;
  std::array<std::uint32_t, 2> wanted_{3, 3};
  RoleSwitch switch_{"", 5s, 60s};
  PodLimits limits_;
};

// Watches that are late now and then let a start come before a switch.
TEST(PodSwitchProperty, WithoutFaultsNearlyEveryPodThatIsNotNeededServesInTheOtherDeployment) {
  int moves = 0, deleted = 0, started = 0;
  for (std::uint64_t seed = 1; seed <= 12 && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    World world{seed, false};
    world.run(20'000, true);
    world.run(20'000, false);
    EXPECT_TRUE(world.is_settled());
    moves += world.moves;
    deleted += world.ready_deleted;
    started += world.started;
  }
  EXPECT_GT(moves, 150) << "the test would be void";
  EXPECT_LT(deleted, moves / 50);
  EXPECT_LT(started, moves / 50);
}

TEST(PodSwitchProperty, WithRestartsAndConflictsNoRequestIsHarmedAndBothReachTheirNumbers) {
  int moves = 0;
  for (std::uint64_t seed = 1; seed <= 15 && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    World world{seed, true};
    world.run(30'000, true);
    world.run(30'000, false);
    EXPECT_TRUE(world.is_settled());
    moves += world.moves;
  }
  EXPECT_GT(moves, 200) << "the test would be void";
}

}  // namespace
}  // namespace penstock::actuation
