// Computes the next safe steps that bring a scalable object of Kubernetes to its wanted number of pods.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "actuation/advance.h"
#include "core/time.h"

namespace penstock::actuation {

// Values of controller.kubernetes.io/pod-deletion-cost. A ReplicaSet deletes ready pods with the least cost first.
inline constexpr std::int64_t kDrainingCost = -1'000'000'000;
inline constexpr std::int64_t kDrainedCost = -2'000'000'000;

// A pod that is neither terminating nor ended, or a group of pods that is one replica.
struct PodSeen {
  std::string name;  // Of the leader of a group.
  std::uint32_t pods = 1;
  bool is_scheduled = false, is_ready = false;
  bool is_marked = false;      // Gateways that follow pods send it no new requests.
  core::Instant marked_since;  // When the mark was seen.
  std::int64_t deletion_cost = 0;
  std::int64_t created_s = 0;  // Unix time.
  std::string revision;        // Of its template.
  std::string blocked_by;      // Why it cannot start, as the scheduler or the kubelet says; empty: nothing.
  core::Instant blocked_since;
  std::optional<GatewaySeen> gateway;  // Empty: the gateway does not list it.
  std::optional<EngineSeen> engine;
  // Of pods that came from another target, or may go to one; see pod_switch.h.
  bool has_role = true;        // The engine has the role of its pool, as far as is known.
  bool can_switch = false;     // The engine can take the role of the other pool.
  bool is_committed = false;   // The engine was asked to take it, or may have it.
  bool has_next_role = false;  // The engine has it.
  bool leaves = false;         // The pod is to go to the other target once it is drained.
  bool may_join = false;       // The other target has a place for it now.
};

// A PodDisruptionBudget that selects pods of the target.
struct BudgetSeen {
  std::string name;
  std::uint32_t allowed = 0;  // Disruptions.
  std::string version;        // Changes when `allowed` is computed anew.
};

struct TargetSeen {
  // What is not known, or stale, of all that follows; empty: nothing.
  std::string missing;
  std::uint32_t replicas = 0;  // Asked for.
  // Replicas that exist, as the controller of the target counts them; empty: it does not.
  std::optional<std::uint32_t> existing;
  std::uint32_t leaving = 0;   // Known replicas that are not in `pods`, because they terminate or have ended.
  std::uint32_t unlisted = 0;  // Replicas of the target to which the gateway routes, and whose pods are not known.
  bool is_own_write = false;   // This planner, or one before it under the same Lease, set `replicas`.
  bool is_planner = false;     // Another planner, which runs beside this one, set it.
  std::string writer;          // The client that set it otherwise; empty: unknown.
  std::string autoscaler;      // Another autoscaler with the same target; empty: none.
  bool is_ordered = false;     // The pods with the highest ordinals go first.
  std::int64_t first_ordinal = 0;
  std::vector<PodSeen> pods;
  std::vector<BudgetSeen> budgets;
  std::optional<core::Instant> gateway_at;  // When the gateway was last asked and answered.
  // Of targets that exchange pods. `departing`: pods that have got the labels of the other target, and that the
  // controller of this one still counts. `joining`: pods that have got the labels of this target and are not in `pods`,
  // because its controller does not count them yet, or still has to delete another one in their place.
  std::uint32_t departing = 0, joining = 0;
  std::set<std::string>
      released;              // Pods with the labels of the other target that this one's controller does not count.
  bool is_settled = false;   // The controller has seen `replicas`, and all pods are to have the same template.
  bool has_rollout = false;  // Pods of another template are being replaced.
};

// Replicas that have no pod yet. `existing` as in TargetSeen.
[[nodiscard]] inline std::uint32_t absent_replicas(std::uint32_t asked, std::uint32_t pods,
                                                   std::optional<std::uint32_t> existing) {
  return asked - std::min(asked, std::max(pods, existing.value_or(0)));
}

struct PodLimits {
  // Time for which a target stays as another client set it, before the planner goes on from there.
  core::Duration manual_hold = std::chrono::minutes{10};
  // Time for which pods may be unable to start before no more are asked for.
  core::Duration pending_timeout = std::chrono::minutes{5};
  // Time from a mark until every gateway has seen it.
  core::Duration mark_delay = std::chrono::seconds{1};
  // A report of the gateway that is older says nothing about the present.
  core::Duration gateway_age = std::chrono::seconds{5};
  // Time for which pods that exist may be unknown before that is reported.
  core::Duration unknown_age = std::chrono::seconds{5};
};

enum class HoldCause : std::uint8_t {
  kNone,
  kNoData,      // Something is unknown or stale.
  kAutoscaler,  // Another autoscaler has the same target.
  kManual,      // Another client set the number of replicas.
  kBlocked,     // Pods cannot start, so no more are asked for.
  kRollout,     // Pods of two revisions run; nothing shrinks.
  kBudget,      // A PodDisruptionBudget allows no disruption.
  kDraining,    // Requests are open, or unknown, on the pods that are to go.
};
[[nodiscard]] const char* to_string(HoldCause cause);  // "none", "no_data", …

// Why the target is not at its wanted number, and nothing is done about it now.
struct PodHold {
  HoldCause cause = HoldCause::kNone;
  std::string by;    // Name of the autoscaler, writer, budget or pod.
  std::string text;  // For people; it changes with the cause only.

  friend bool operator==(const PodHold&, const PodHold&) = default;
};

enum class PodStepKind : std::uint8_t {
  kMark,     // Gateways stop sending requests; deletion cost kDrainingCost.
  kUnmark,   // The pod is needed again.
  kDrained,  // Deletion cost kDrainedCost.
  kScale,    // Set the number of replicas, if the target is as it was read; then call scaled().
  kSwitch,   // Give the engine the role of the other target's pool.
  kRestore,  // Give the engine the role of its own pool, which it has lost by a restart or was to leave.
  kMove,     // Give the pod the labels of the other target; then call moved().
};
[[nodiscard]] const char* to_string(PodStepKind kind);  // "mark", "unmark", …

struct PodStep {
  PodStepKind kind = PodStepKind::kMark;
  std::string pod;             // Of all but kScale.
  std::uint32_t replicas = 0;  // Of kScale.
  bool disrupts = false;       // Ready pods go.

  friend bool operator==(const PodStep&, const PodStep&) = default;
};

// A pod that was chosen to go to another target.
struct Departure {
  core::Instant since;    // When it was chosen, or its drain began.
  bool is_chosen = true;  // It still is.
  // Replicas of the other target among which is the place in which it comes; none: it lacks the role.
  std::optional<std::uint32_t> place{};
};

// What has to be remembered of a target. All else is on the pods, so that another planner can continue.
struct PodScaling {
  std::optional<std::uint32_t> known;  // Replicas that the planner set, found at its start, or adopted.
  std::optional<core::Instant> held_until;
  std::string held_by;
  bool is_held_by_planner = false;
  std::optional<core::Instant> unknown_since;          // Pods exist that are not known.
  std::map<std::string, core::Instant> quiet_since;    // Marked pods without open requests at the gateway.
  std::map<std::string, std::string> budget_versions;  // Of budgets when pods were last taken from them.
  std::set<std::string> drained;                       // Marked pods on which nothing has been open since.
  std::optional<core::Duration> drain_time{};          // Mean of recent drains; empty before the first.
  std::map<std::string, Departure> departures;         // By pod.
  std::optional<core::Instant> absent_since;           // Replicas have no pod, although no pod is starting.
  std::set<std::string> moved;                         // Pods that got its labels, and were not seen released yet.
  std::uint32_t departed = 0;                          // Pods that were released, and whose places are to go, too.
};

struct PodAdvance {
  std::vector<PodStep> steps;
  PodHold hold;
};

// `wanted`: empty while nothing is decided, or another planner leads: nothing is done then. Rules:
// - Without data, and while another autoscaler has the same target, nothing is done. After a change by another client
//   nothing is done for `manual_hold`; then the planner goes on from that number. The marks of another planner stay.
// - Up: marked pods are needed again first. Then replicas are asked for, unless for `pending_timeout` a pod has been
//   without a node, or unable to start although no other of its revision is Ready, or at least two pods with a node
//   have been unable to start and no pod that was created after the first of them is Ready. Nor are they while for that
//   time replicas have had no pod and all other pods are Ready: a quota or an admission webhook refuses them.
// - Down: pods without a node go first, then those that are not ready, then those with the fewest open requests; of
//   ordered targets always the highest ordinals, with or without a pod. Pods with a node are marked first. While pods
//   exist that are not known, nothing shrinks: they may serve. The number
//   of replicas shrinks only by pods that Kubernetes deletes next and on which nothing is open: the gateway does not
//   route to them and awaits nothing there, and the engine, read after that, has nothing open. While the gateway does
//   not answer no pod is marked, and a Ready pod that it does not list is not marked either.
// - Pods that go to another target (pod_switch.h) are drained in the same way. They are not deleted: their engine gets
//   its new role, and then they get the labels of the other target as soon as that has a place for them. Until the
//   controller of this one has released them nothing shrinks, because it would delete them. It makes a pod in the
//   place of each; those places go next, with pods that were never Ready.
// - A pod whose engine lacks the role of its pool is marked until it has the role again.
// - Disruption budgets limit how many ready pods go at once.
// O(pods · log pods).
[[nodiscard]] PodAdvance advance(PodScaling& state, std::optional<std::uint32_t> wanted, const TargetSeen& seen,
                                 const PodLimits& limits, core::Instant now);

// Pods that go if `wanted` replicas are to stay, in order. Of a target without an order.
[[nodiscard]] std::vector<const PodSeen*> victims_of(const TargetSeen& seen, std::uint32_t wanted);

// Result of a kScale, and of a kMove.
void scaled(PodScaling& state, const TargetSeen& seen, const PodStep& step);
void moved(PodScaling& state, const TargetSeen& seen, const PodStep& step);

}  // namespace penstock::actuation
