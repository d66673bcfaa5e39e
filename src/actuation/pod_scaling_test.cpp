#include "actuation/pod_scaling.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "core/random.h"

namespace penstock::actuation {
namespace {

using namespace std::chrono_literals;
using Kind = PodStepKind;

// A target with ready pods "d-0" … of which the gateway routes to all, at 100 s.
class PodScalingTest : public testing::Test {
 protected:
  PodScalingTest() { pods(4); }

  void pods(std::uint32_t count) {
    seen.pods.clear();
    seen.replicas = count;
    for (std::uint32_t i = 0; i < count; ++i) {
      PodSeen pod;
      pod.name = "d-" + std::to_string(i);
      pod.is_scheduled = pod.is_ready = true;
      pod.created_s = 1000 + i;
      pod.gateway = GatewaySeen{now, true, 2 + i};
      pod.engine = EngineSeen{now, true, OpenWork{2 + i, 0}};
      seen.pods.push_back(pod);
    }
    seen.gateway_at = now;
    seen.is_own_write = true;
  }
  // Gateway and engines report anew.
  void pass(core::Duration time) {
    now = now + time;
    seen.gateway_at = now;
    for (PodSeen& pod : seen.pods) {
      if (pod.gateway) pod.gateway->at = now;
      if (pod.engine) pod.engine->at = now + 1ms;
    }
  }
  PodAdvance step(std::optional<std::uint32_t> wanted) { return advance(state, wanted, seen, limits, now); }
  std::vector<PodStep> steps(std::uint32_t wanted) { return step(wanted).steps; }
  HoldCause cause(std::uint32_t wanted) { return step(wanted).hold.cause; }

  void mark(PodSeen& pod, std::int64_t cost = kDrainingCost) {
    pod.is_marked = true;
    pod.marked_since = now;
    pod.deletion_cost = cost;
    if (pod.gateway) pod.gateway->routes = false;
  }
  void empty(PodSeen& pod) { pod.gateway->open_requests = pod.engine->open->requests = 0; }
  // Marked, and long enough without open requests.
  void drain(PodSeen& pod) {
    mark(pod, kDrainedCost);
    empty(pod);
    pass(2s);
  }

  core::Instant now = core::kStart + 100s;
  PodLimits limits;
  PodScaling state;
  TargetSeen seen;
};

TEST_F(PodScalingTest, NothingIsDoneWithoutATargetAndWithoutData) {
  EXPECT_TRUE(step(std::nullopt).steps.empty());
  seen.missing = "pods: the API server has not answered yet";
  for (const std::uint32_t wanted : {0U, 4U, 9U}) {
    EXPECT_TRUE(steps(wanted).empty());
    EXPECT_EQ(cause(wanted), HoldCause::kNoData);
  }
}

TEST_F(PodScalingTest, MoreReplicasAreAskedForAtOnce) {
  EXPECT_EQ(steps(7), (std::vector<PodStep>{{Kind::kScale, {}, 7}}));
  EXPECT_TRUE(steps(4).empty());
}

TEST_F(PodScalingTest, NoMoreAreAskedForWhileReplicasGetNoPod) {
  seen.replicas = 6;  // A quota allows four pods.
  EXPECT_EQ(steps(7), (std::vector<PodStep>{{Kind::kScale, {}, 7}}));
  pass(limits.pending_timeout);
  const PodAdvance held = step(7);
  EXPECT_TRUE(held.steps.empty());
  EXPECT_EQ(held.hold.cause, HoldCause::kBlocked);
  EXPECT_EQ(held.hold.by, "replicas without a pod");
  EXPECT_EQ(cause(6), HoldCause::kBlocked) << "the replicas are asked for, and do not come";
  EXPECT_EQ(steps(5), (std::vector<PodStep>{{Kind::kScale, {}, 5}})) << "replicas without a pod go without a drain";
  seen.pods.push_back(seen.pods.front());
  seen.pods.back().name = "d-4";
  seen.pods.back().is_ready = false;  // It starts, and the next one may have to wait for it.
  EXPECT_EQ(steps(7), (std::vector<PodStep>{{Kind::kScale, {}, 7}}));
  pass(2 * limits.pending_timeout);
  EXPECT_EQ(cause(6), HoldCause::kNone);
}

TEST_F(PodScalingTest, PodsWithTheFewestOpenRequestsAreMarkedAndNothingShrinksYet) {
  EXPECT_EQ(steps(2), (std::vector<PodStep>{{Kind::kMark, "d-0"}, {Kind::kMark, "d-1"}}));
  EXPECT_EQ(cause(2), HoldCause::kDraining);
}

TEST_F(PodScalingTest, TheHighestOrdinalsOfAnOrderedTargetGo) {
  seen.is_ordered = true;
  pods(12);
  EXPECT_EQ(steps(10), (std::vector<PodStep>{{Kind::kMark, "d-10"}, {Kind::kMark, "d-11"}}));
  mark(seen.pods[10]);
  drain(seen.pods[11]);
  EXPECT_EQ(steps(10), (std::vector<PodStep>{{Kind::kScale, {}, 11, true}}));
  seen.pods[11].is_marked = true;
  seen.pods[11].engine->open->requests = 1;
  empty(seen.pods[10]);
  pass(3s);
  EXPECT_TRUE(steps(10).empty()) << "the pod with the highest ordinal would go";
}

TEST_F(PodScalingTest, AnOrdinalWithoutAPodDoesNotLetTheHighestPodBeDeleted) {
  seen.is_ordered = true;
  seen.pods.erase(seen.pods.begin() + 1);  // Kubernetes makes it anew.
  EXPECT_EQ(steps(3), (std::vector<PodStep>{{Kind::kMark, "d-3"}}));
  drain(seen.pods[2]);
  EXPECT_EQ(steps(3), (std::vector<PodStep>{{Kind::kScale, {}, 3, true}}));
  seen.pods.pop_back();
  EXPECT_EQ(steps(3), (std::vector<PodStep>{{Kind::kScale, {}, 3}})) << "the highest ordinal has no pod";
  seen.first_ordinal = 1;
  seen.replicas = 2;  // d-1 and d-2.
  EXPECT_EQ(steps(1), (std::vector<PodStep>{{Kind::kMark, "d-2"}}));
}

TEST_F(PodScalingTest, AGroupTakesAllItsPodsFromABudget) {
  for (PodSeen& pod : seen.pods) pod.pods = 2;
  seen.is_ordered = true;
  drain(seen.pods[2]);
  drain(seen.pods[3]);
  seen.budgets = {{"chat", 1, "1"}};
  EXPECT_EQ(cause(2), HoldCause::kBudget);
  seen.budgets = {{"chat", 3, "2"}};
  EXPECT_EQ(steps(2), (std::vector<PodStep>{{Kind::kScale, {}, 3, true}}));
}

TEST_F(PodScalingTest, AMarkedPodGoesOnceGatewayAndEngineHaveNothingOpen) {
  PodSeen& pod = seen.pods[0];
  mark(pod);
  EXPECT_TRUE(steps(3).empty());
  pass(5s);
  pod.gateway->open_requests = 0;
  pass(1s);
  EXPECT_TRUE(steps(3).empty()) << "the engine has open requests";
  pod.engine->open->requests = 0;
  EXPECT_TRUE(steps(3).empty() || pod.engine->at > now);
  pass(1s);
  EXPECT_EQ(steps(3), (std::vector<PodStep>{{Kind::kDrained, "d-0"}}));
  pod.deletion_cost = kDrainedCost;
  EXPECT_EQ(steps(3), (std::vector<PodStep>{{Kind::kScale, {}, 3, true}}));
  pod.gateway->open_requests = 1;
  EXPECT_TRUE(steps(3).empty());
}

TEST_F(PodScalingTest, MissingIsNotZero) {
  PodSeen& pod = seen.pods[0];
  drain(pod);
  ASSERT_EQ(steps(3).size(), 1U);
  const PodSeen whole = pod;
  pod.engine.reset();
  EXPECT_TRUE(steps(3).empty()) << "the engine is silent";
  pod = whole;
  pod.engine->open.reset();
  EXPECT_TRUE(steps(3).empty());
  pod = whole;
  pod.gateway.reset();
  EXPECT_TRUE(steps(3).empty()) << "the gateway does not list it";
  pod = whole;
  seen.gateway_at = now - 6s;
  EXPECT_EQ(steps(3), (std::vector<PodStep>{{Kind::kUnmark, "d-0"}})) << "the gateway is gone; others need the pod";
  EXPECT_EQ(cause(3), HoldCause::kDraining);
}

TEST_F(PodScalingTest, APodOfWhichTheGatewayDoesNotReportIsNotMarked) {
  seen.pods[0].gateway.reset();
  EXPECT_EQ(steps(0), (std::vector<PodStep>{{Kind::kMark, "d-1"}, {Kind::kMark, "d-2"}, {Kind::kMark, "d-3"}}));
}

TEST_F(PodScalingTest, AReportOfTheEngineFromBeforeTheGatewaysDoesNotCount) {
  PodSeen& pod = seen.pods[0];
  mark(pod, kDrainedCost);
  empty(pod);
  pass(2s);
  pod.engine->at = now - 1ms;
  EXPECT_TRUE(steps(3).empty());
  pod.engine->at = now + 1ms;
  EXPECT_EQ(steps(3).size(), 1U);
}

TEST_F(PodScalingTest, OtherGatewaysHaveTimeToSeeTheMark) {
  PodSeen& pod = seen.pods[0];
  empty(pod);
  mark(pod, kDrainedCost);
  pass(900ms);
  EXPECT_TRUE(steps(3).empty());
  pass(200ms);
  EXPECT_EQ(steps(3).size(), 1U);
}

TEST_F(PodScalingTest, AnEmptyPodGoesBeforeOnesThatStillDrain) {
  mark(seen.pods[0]);
  mark(seen.pods[1]);
  drain(seen.pods[2]);
  EXPECT_EQ(steps(1), (std::vector<PodStep>{{Kind::kScale, {}, 3, true}}));
}

TEST_F(PodScalingTest, APodThatKubernetesWouldDeleteFirstIsNotCut) {
  drain(seen.pods[0]);
  seen.pods[3].is_ready = false;  // It has open requests, and goes before ready pods.
  EXPECT_EQ(steps(3), (std::vector<PodStep>{{Kind::kUnmark, "d-0"}, {Kind::kMark, "d-3"}}));
}

TEST_F(PodScalingTest, MarkedPodsAreNeededAgainBeforeOthersAreAskedFor) {
  mark(seen.pods[0]);
  mark(seen.pods[1]);
  EXPECT_EQ(steps(4), (std::vector<PodStep>{{Kind::kUnmark, "d-0"}, {Kind::kUnmark, "d-1"}}));
  EXPECT_EQ(steps(3).size(), 1U);
  EXPECT_EQ(steps(6).back(), (PodStep{Kind::kScale, {}, 6}));
}

TEST_F(PodScalingTest, PodsWithoutANodeGoFirstAndAtOnce) {
  for (const std::size_t i : {1U, 3U}) {
    seen.pods[i].is_scheduled = seen.pods[i].is_ready = false;
    seen.pods[i].gateway.reset();
    seen.pods[i].engine.reset();
  }
  EXPECT_EQ(steps(2), (std::vector<PodStep>{{Kind::kScale, {}, 2}}));
  EXPECT_EQ(steps(1), (std::vector<PodStep>{{Kind::kMark, "d-0"}, {Kind::kScale, {}, 2}}));
}

TEST_F(PodScalingTest, AStartingPodIsMarkedFirstBecauseItMayBecomeReady) {
  PodSeen& pod = seen.pods[2];
  pod.is_ready = false;
  pod.gateway = GatewaySeen{now, false, 0};
  pod.engine.reset();
  EXPECT_EQ(steps(3), (std::vector<PodStep>{{Kind::kMark, "d-2"}}));
  mark(pod, kDrainedCost);
  pass(2s);
  EXPECT_EQ(steps(3), (std::vector<PodStep>{{Kind::kScale, {}, 3}}));
}

TEST_F(PodScalingTest, ReplicasWithoutAPodGoWithoutAVictim) {
  seen.replicas = 6;
  EXPECT_EQ(steps(4), (std::vector<PodStep>{{Kind::kScale, {}, 4}}));
  seen.replicas = 3;
  drain(seen.pods[0]);
  EXPECT_EQ(steps(2), (std::vector<PodStep>{{Kind::kMark, "d-1"}})) << "Kubernetes is about to delete a pod";
}

TEST_F(PodScalingTest, PodsThatExistAndAreNotKnownDoNotLetThePoolShrink) {
  seen.replicas = 7;  // The watch has not brought the last three.
  seen.existing = 7;
  for (const bool is_ordered : {false, true}) {
    seen.is_ordered = is_ordered;
    EXPECT_TRUE(steps(4).empty());
    EXPECT_TRUE(steps(3).empty()) << "the unknown ones may be those that are needed least";
    EXPECT_EQ(cause(4), HoldCause::kNone) << "pods that were made right now are known a moment later";
    pass(5s);
    EXPECT_TRUE(steps(4).empty());
    EXPECT_EQ(step(4).hold.cause, HoldCause::kNoData);
    EXPECT_EQ(step(4).hold.text, "4 of 7 replicas that exist are known; nothing shrinks");
    EXPECT_EQ(steps(8), (std::vector<PodStep>{{Kind::kScale, {}, 8}}));
    seen.existing = 4;
    EXPECT_EQ(steps(4), (std::vector<PodStep>{{Kind::kScale, {}, 4}})) << "the others were never made";
    seen.existing = 7;
  }
  seen.existing = 5;
  seen.leaving = 1;
  EXPECT_EQ(steps(4), (std::vector<PodStep>{{Kind::kScale, {}, 4}})) << "of an ordered target they terminate";
}

TEST_F(PodScalingTest, PodsThatOnlyTheGatewayKnowsDoNotLetThePoolShrink) {
  seen.replicas = 6;
  seen.unlisted = 2;
  EXPECT_TRUE(steps(4).empty());
  pass(5s);
  EXPECT_TRUE(steps(3).empty());
  EXPECT_EQ(cause(4), HoldCause::kNoData);
  seen.unlisted = 0;
  EXPECT_EQ(steps(4), (std::vector<PodStep>{{Kind::kScale, {}, 4}}));
}

TEST_F(PodScalingTest, ThePodsThatGoNextKeepTheirMarksWhileTheControllerDeletesOthers) {
  drain(seen.pods[1]);
  mark(seen.pods[0]);
  seen.replicas = 3;
  EXPECT_TRUE(steps(2).empty()) << "d-0 has to go after d-1";
  EXPECT_EQ(steps(1), (std::vector<PodStep>{{Kind::kMark, "d-2"}}));
  EXPECT_EQ(steps(3), (std::vector<PodStep>{{Kind::kUnmark, "d-0"}}));
}

TEST_F(PodScalingTest, PodsKeepTheirMarksUntilASlowControllerDeletesThem) {
  drain(seen.pods[2]);
  seen.replicas = 3;
  EXPECT_TRUE(steps(3).empty()) << "without the mark another pod would be deleted";
  EXPECT_EQ(steps(4), (std::vector<PodStep>{{Kind::kScale, {}, 4}}));
  seen.replicas = 4;
  EXPECT_EQ(steps(4), (std::vector<PodStep>{{Kind::kUnmark, "d-2"}})) << "it is needed again";
  seen.is_ordered = true;
  seen.replicas = 2;
  drain(seen.pods[3]);
  EXPECT_TRUE(steps(2).empty());
  seen.replicas = 3;
  EXPECT_EQ(steps(3), (std::vector<PodStep>{{Kind::kUnmark, "d-2"}}));
}

TEST_F(PodScalingTest, AfterPendingTimeoutNoMoreAreAskedFor) {
  PodSeen& pod = seen.pods[3];
  pod.is_scheduled = pod.is_ready = false;
  pod.blocked_by = "Unschedulable: 0/4 nodes are available: 4 Insufficient nvidia.com/gpu.";
  pod.blocked_since = now;
  EXPECT_EQ(steps(6).size(), 1U);
  pass(5min);
  EXPECT_TRUE(steps(6).empty());
  const PodHold hold = step(6).hold;
  EXPECT_EQ(hold.cause, HoldCause::kBlocked);
  EXPECT_NE(hold.text.find("Insufficient nvidia.com/gpu"), std::string::npos);
  EXPECT_EQ(steps(3), (std::vector<PodStep>{{Kind::kScale, {}, 3}})) << "falling demand cancels it";
}

TEST_F(PodScalingTest, APodThatCannotStartOnItsNodeStopsTheGrowthOnlyIfOthersCannotEither) {
  const auto block = [&](PodSeen& pod) {
    pod.is_ready = false;
    pod.blocked_by = "CrashLoopBackOff";
    pod.blocked_since = now;
  };
  block(seen.pods[2]);
  pass(5min);
  EXPECT_EQ(steps(6), (std::vector<PodStep>{{Kind::kScale, {}, 6}}));
  seen.pods[3].is_ready = false;
  EXPECT_EQ(steps(6).size(), 1U) << "it may still start";
  block(seen.pods[3]);
  pass(5min);
  EXPECT_EQ(cause(6), HoldCause::kBlocked);
  EXPECT_EQ(step(6).hold.by, "d-2");
  PodSeen later = seen.pods[0];
  later.name = "d-9";
  later.created_s = 2000;
  seen.pods.push_back(later);
  EXPECT_EQ(steps(6).size(), 1U) << "a pod that was created later is Ready";
  seen.pods[3].revision = "new";
  EXPECT_EQ(step(6).hold.by, "d-3") << "no pod of its revision is Ready";
}

TEST_F(PodScalingTest, TheMarksOfAnotherPlannerStay) {
  EXPECT_TRUE(steps(4).empty());
  mark(seen.pods[0]);
  seen.replicas = 3;
  seen.is_own_write = false;
  seen.is_planner = true;
  seen.writer = "another planner";
  EXPECT_TRUE(steps(5).empty());
  EXPECT_EQ(step(5).hold.cause, HoldCause::kManual);
  EXPECT_NE(step(5).hold.text.find("another planner set 3 replicas"), std::string::npos);
  EXPECT_NE(step(5).hold.text.find("--leader-election"), std::string::npos);
  pass(limits.manual_hold);
  EXPECT_EQ(steps(5).back(), (PodStep{Kind::kScale, {}, 5}));
}

TEST_F(PodScalingTest, AChangeByAnotherClientHoldsAndIsThenAdopted) {
  EXPECT_TRUE(steps(4).empty());
  pods(9);
  seen.is_own_write = false;
  seen.writer = "kubectl";
  EXPECT_TRUE(steps(4).empty());
  const PodHold hold = step(4).hold;
  EXPECT_EQ(hold.cause, HoldCause::kManual);
  EXPECT_EQ(hold.by, "kubectl");
  pass(limits.manual_hold - 1s);
  EXPECT_TRUE(steps(4).empty());
  seen.replicas = 8;  // Another change begins the time anew.
  EXPECT_TRUE(steps(4).empty());
  pass(limits.manual_hold - 1s);
  EXPECT_EQ(cause(4), HoldCause::kManual);
  pass(1s);
  EXPECT_EQ(cause(8), HoldCause::kNone);
  EXPECT_EQ(steps(10), (std::vector<PodStep>{{Kind::kScale, {}, 10}}));
}

TEST_F(PodScalingTest, OwnWritesAreNoChangeByAnotherClient) {
  EXPECT_TRUE(steps(4).empty());
  const PodStep scale = steps(5).at(0);
  scaled(state, seen, scale);
  pods(5);
  seen.is_own_write = false;  // The object is not seen anew yet.
  EXPECT_EQ(cause(5), HoldCause::kNone);
  pods(6);  // The answer to this write was lost.
  EXPECT_EQ(cause(6), HoldCause::kNone);
}

TEST_F(PodScalingTest, AnotherAutoscalerIsNeverFought) {
  mark(seen.pods[0]);
  seen.autoscaler = "ScaledObject \"chat\"";
  for (int i = 0; i < 100; ++i) {
    pass(1min);
    seen.replicas = 4 + i % 2;
    const PodAdvance next = step(9);
    EXPECT_EQ(next.hold.by, seen.autoscaler);
    for (const PodStep& each : next.steps) EXPECT_EQ(each.kind, Kind::kUnmark);
  }
  seen.autoscaler.clear();
  EXPECT_EQ(step(9).steps.back(), (PodStep{Kind::kScale, {}, 9}));
}

TEST_F(PodScalingTest, DisruptionBudgetsLimitHowManyReadyPodsGo) {
  drain(seen.pods[0]);
  drain(seen.pods[1]);
  seen.budgets = {{"chat", 0, "1"}, {"loose", 9, "1"}};
  EXPECT_TRUE(steps(2).empty());
  EXPECT_EQ(step(2).hold.by, "chat");
  seen.budgets[0] = {"chat", 1, "2"};
  const PodStep scale = steps(2).at(0);
  EXPECT_EQ(scale, (PodStep{Kind::kScale, {}, 3, true}));
  scaled(state, seen, scale);
  seen.pods.erase(seen.pods.begin());
  seen.replicas = 3;
  EXPECT_TRUE(steps(2).empty()) << "the budget is not computed anew yet";
  seen.budgets = {{"chat", 1, "3"}, {"loose", 9, "2"}};
  EXPECT_EQ(steps(2), (std::vector<PodStep>{{Kind::kScale, {}, 2, true}}));
}

TEST_F(PodScalingTest, NothingShrinksDuringARollout) {
  drain(seen.pods[0]);
  seen.pods[3].revision = "new";
  EXPECT_EQ(steps(3), (std::vector<PodStep>{{Kind::kUnmark, "d-0"}}));
  EXPECT_EQ(cause(3), HoldCause::kRollout);
  EXPECT_EQ(steps(5).back(), (PodStep{Kind::kScale, {}, 5}));
}

// A world with a ReplicaSet that deletes pods as Kubernetes does, and random targets, loads and reports.
TEST_F(PodScalingTest, NoPodWithOpenRequestsIsEverDeleted) {
  std::uint32_t deleted = 0;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    core::RandomStream random{seed};
    now = core::kStart + 100s;
    state = {};
    pods(5);
    std::map<std::string, std::uint32_t> open;  // In truth.
    std::uint32_t wanted = 5, names = 5;
    for (int tick = 0; tick < 2000; ++tick) {
      now = now + 200ms;
      if (random.below(120) == 0) wanted = static_cast<std::uint32_t>(1 + random.below(9));
      for (PodSeen& pod : seen.pods) {
        if (!pod.is_ready && random.below(30) == 0) pod.is_ready = true;
        if (pod.is_ready && random.below(200) == 0) pod.is_ready = false;
        // The gateway sees the mark and the readiness after up to 1 s.
        const bool routes = !pod.is_marked || now - pod.marked_since < 800ms;
        if (pod.is_ready && routes && random.below(3) == 0) ++open[pod.name];
        if (open[pod.name] > 0 && random.below(8) == 0) --open[pod.name];
        if (random.below(3) == 0)
          pod.gateway = GatewaySeen{now, pod.is_ready && routes, open[pod.name]}, seen.gateway_at = now;
        if (pod.gateway) pod.gateway->at = *seen.gateway_at;
        if (pod.gateway) pod.gateway->open_requests = open[pod.name], pod.gateway->routes = pod.is_ready && routes;
        if (random.below(5) == 0) pod.engine = EngineSeen{now, true, OpenWork{open[pod.name], 0}};
      }
      const PodAdvance next = step(wanted);
      for (const PodStep& each : next.steps) {
        const auto pod = std::find_if(seen.pods.begin(), seen.pods.end(),
                                      [&](const PodSeen& candidate) { return candidate.name == each.pod; });
        switch (each.kind) {
          case Kind::kMark: pod->is_marked = true, pod->marked_since = now, pod->deletion_cost = kDrainingCost; break;
          case Kind::kDrained: pod->deletion_cost = kDrainedCost; break;
          case Kind::kUnmark: pod->is_marked = false, pod->deletion_cost = 0; break;
          case Kind::kScale:
            scaled(state, seen, each);
            seen.replicas = each.replicas;
            break;
          default: FAIL() << "no pod has a role here";
        }
      }
      while (seen.pods.size() > seen.replicas) {
        const auto first =
            std::min_element(seen.pods.begin(), seen.pods.end(), [](const auto& left, const auto& right) {
              return std::pair{left.is_ready, left.deletion_cost} < std::pair{right.is_ready, right.deletion_cost};
            });
        ASSERT_EQ(open[first->name], 0U) << first->name << ", seed " << seed << ", tick " << tick;
        seen.pods.erase(first);
        ++deleted;
      }
      while (seen.pods.size() < seen.replicas) {
        PodSeen pod;
        pod.name = "n-" + std::to_string(names++);
        pod.is_scheduled = true;
        seen.pods.push_back(pod);
      }
    }
  }
  EXPECT_GT(deleted, 100U) << "the test would be void";
}

}  // namespace
}  // namespace penstock::actuation
