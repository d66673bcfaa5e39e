#include "actuation/pod_scaling.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <set>
#include <tuple>
#include <utility>

#include "core/enum_names.h"

namespace penstock::actuation {
namespace {

// The number at the end of "NAME-3"; -1 if there is none.
std::int64_t ordinal_of(const std::string& pod) {
  const std::size_t dash = pod.rfind('-');
  std::int64_t number = -1;
  if (dash == std::string::npos) return -1;
  const auto [end, error] = std::from_chars(pod.data() + dash + 1, pod.data() + pod.size(), number);
  return error == std::errc{} && end == pod.data() + pod.size() ? number : -1;
}

// Kubernetes deletes pods of a lower class first.
int class_of(const PodSeen& pod) { return pod.is_scheduled ? (pod.is_ready ? 2 : 1) : 0; }

bool has_own_cost(const PodSeen& pod) {
  return pod.deletion_cost == kDrainingCost || pod.deletion_cost == kDrainedCost;
}

bool goes_before(const PodSeen& left, const PodSeen& right) {
  const auto key = [](const PodSeen& pod) {
    const std::uint32_t open = pod.gateway ? pod.gateway->open_requests : UINT32_MAX;
    return std::tuple{class_of(pod), !pod.is_marked, has_own_cost(pod) ? pod.deletion_cost : 0, open, -pod.created_s};
  };
  const auto a = key(left), b = key(right);
  return a != b ? a < b : left.name < right.name;
}

std::uint32_t active_of(const TargetSeen& seen) { return static_cast<std::uint32_t>(seen.pods.size()); }

// Pods beyond the number of replicas, which are about to be deleted, are victims, too.
std::uint32_t surplus_of(const TargetSeen& seen, std::uint32_t wanted) {
  const std::uint32_t most = std::max(active_of(seen) + seen.departing, seen.replicas);
  return most - std::min(most, wanted);
}

std::uint32_t absent_of(const TargetSeen& seen) {
  return absent_replicas(seen.replicas, active_of(seen) + seen.departing, seen.existing);
}

class Scaler {
 public:
  Scaler(PodScaling& state, std::uint32_t wanted, const TargetSeen& seen, const PodLimits& limits, core::Instant now)
      : state_(state), wanted_(wanted), seen_(seen), limits_(limits), now_(now) {}

  PodAdvance run() {
    note_absent();
    if (is_held_by_others()) {
      if (!state_.is_held_by_planner) mark({});
      return std::move(result_);
    }
    if (wanted_ >= seen_.replicas) {
      state_.departed = 0;
      state_.moved.clear();
      mark({});
      if (is_refused_pods())
        hold_growth("replicas without a pod", "a quota or an admission webhook may refuse their pods");
      else if (wanted_ > seen_.replicas)
        grow();
      return std::move(result_);
    }
    if (has_rollout()) {
      hold(HoldCause::kRollout, {}, "pods of two revisions run; nothing shrinks until the rollout is over");
      mark({});
      return std::move(result_);
    }
    if (seen_.departing > 0) {
      hold(HoldCause::kDraining, {}, "a pod goes to another target; nothing shrinks until its controller releases it");
      return std::move(result_);
    }
    if (state_.departed > 0 && give_up_places()) return std::move(result_);
    if (has_unknown_pods()) return std::move(result_);
    shrink();
    return std::move(result_);
  }

 private:
  void hold(HoldCause cause, std::string by, std::string text) {
    result_.hold = {cause, std::move(by), std::move(text)};
  }

  bool is_held_by_others() {
    if (!seen_.autoscaler.empty()) {
      state_.known = seen_.replicas;
      state_.held_until.reset();
      state_.is_held_by_planner = false;
      hold(HoldCause::kAutoscaler, seen_.autoscaler,
           fmt::format("{} has the same target; remove it, or run the planner with --mode observe", seen_.autoscaler));
      return true;
    }
    if (std::exchange(state_.known, seen_.replicas).value_or(seen_.replicas) != seen_.replicas && !seen_.is_own_write) {
      state_.held_until = now_ + limits_.manual_hold;
      state_.held_by = seen_.writer.empty() ? "an unknown client" : seen_.writer;
      state_.is_held_by_planner = seen_.is_planner;
    }
    if (!state_.held_until) return false;
    if (now_ >= *state_.held_until) {
      state_.held_until.reset();
      state_.is_held_by_planner = false;
      return false;
    }
    const char* hint = state_.is_held_by_planner ? "; end one of the two, or give both --leader-election" : "";
    hold(HoldCause::kManual, state_.held_by,
         fmt::format("{} set {} replicas; the planner goes on from there after {:.0f} s without another change{}",
                     state_.held_by, seen_.replicas, core::to_seconds(limits_.manual_hold), hint));
    return true;
  }

  // While a pod starts, the controller may wait for it before it makes the next one.
  void note_absent() {
    const bool is_waiting =
        std::any_of(seen_.pods.begin(), seen_.pods.end(), [](const auto& pod) { return !pod.is_ready; });
    if (absent_of(seen_) == 0 || is_waiting || seen_.joining > 0)
      state_.absent_since.reset();
    else if (!state_.absent_since)
      state_.absent_since = now_;
  }

  [[nodiscard]] bool is_refused_pods() const {
    return state_.absent_since && now_ - *state_.absent_since >= limits_.pending_timeout;
  }

  // One pod that cannot start on its node says nothing about those on other nodes while others of its revision are
  // Ready; several of them do, until a later one is Ready.
  void grow() {
    std::set<std::string> revisions;  // Of Ready pods.
    const PodSeen* cause = nullptr;
    std::int64_t first_s = INT64_MAX, last_ready_s = INT64_MIN;
    std::size_t blocked = 0;
    for (const PodSeen& pod : seen_.pods) {
      if (!pod.is_ready) continue;
      revisions.insert(pod.revision);
      last_ready_s = std::max(last_ready_s, pod.created_s);
    }
    for (const PodSeen& pod : seen_.pods) {
      if (pod.blocked_by.empty() || now_ - pod.blocked_since < limits_.pending_timeout) continue;
      if (!pod.is_scheduled || !revisions.contains(pod.revision)) return hold_growth(pod.name, pod.blocked_by);
      if (cause == nullptr) cause = &pod;
      first_s = std::min(first_s, pod.created_s);
      ++blocked;
    }
    if (blocked > 1 && last_ready_s <= first_s) return hold_growth(cause->name, cause->blocked_by);
    result_.steps.push_back({PodStepKind::kScale, {}, wanted_});
  }

  void hold_growth(const std::string& blocked, std::string_view cause) {
    hold(HoldCause::kBlocked, blocked,
         fmt::format("{} cannot start, and no more replicas are asked for: {}", blocked, cause));
  }

  bool has_rollout() const {
    return seen_.has_rollout || std::any_of(seen_.pods.begin(), seen_.pods.end(), [this](const PodSeen& pod) {
             return pod.revision != seen_.pods.front().revision;
           });
  }

  // Pods that the watch has not brought yet may have open requests, and marks would go to the wrong ones.
  bool has_unknown_pods() {
    const auto active = static_cast<std::uint32_t>(seen_.pods.size());
    const std::uint32_t known = seen_.is_ordered ? active + seen_.leaving : active;
    const std::uint32_t exist = std::min(seen_.existing.value_or(0), seen_.replicas);
    const bool has_some = exist > known || (active < seen_.replicas && seen_.unlisted > 0);
    if (!has_some) {
      state_.unknown_since.reset();
      return false;
    }
    // A pod that was made right now is known a moment later.
    if (!state_.unknown_since) state_.unknown_since = now_;
    if (now_ - *state_.unknown_since < limits_.unknown_age) return true;
    hold(HoldCause::kNoData, {},
         exist > known ? fmt::format("{} of {} replicas that exist are known; nothing shrinks", known, exist)
                       : fmt::format("the gateway routes to {} that the API server has not reported; nothing shrinks",
                                     seen_.unlisted == 1 ? "a pod" : "pods"));
    mark({});
    return true;
  }

  void shrink() {
    if (seen_.is_ordered) return shrink_ordered();
    const std::vector<const PodSeen*> order = victims_of(seen_, wanted_);
    mark({order.begin(), order.end()});
    if (const std::uint32_t absent = absent_of(seen_); absent > 0)
      return scale(std::min(surplus_of(seen_, wanted_), absent), false);
    if (active_of(seen_) > seen_.replicas) return;
    for (const PodSeen* pod : order)
      if (is_idle(*pod) && pod->is_scheduled && !pod->leaves && pod->deletion_cost != kDrainedCost)
        result_.steps.push_back({PodStepKind::kDrained, pod->name});
    for (const PodSeen* pod : order)
      if (pod->leaves) let_leave(*pod);
    std::uint32_t count = 0;
    for (const PodSeen* pod : deletion_order()) {
      const bool is_victim = std::find(order.begin(), order.end(), pod) != order.end();
      const bool goes_next = !pod->is_scheduled || (pod->deletion_cost == kDrainedCost && !pod->leaves);
      if (count == order.size() || !is_victim || !goes_next || !may_go(*pod)) break;
      ++count;
    }
    take(count, order);
  }

  void let_leave(const PodSeen& pod) {
    if (!may_go(pod)) return;
    if (!pod.has_next_role) return result_.steps.push_back({PodStepKind::kSwitch, pod.name});
    if (pod.may_join) result_.steps.push_back({PodStepKind::kMove, pod.name});
  }

  // The controller has made pods in the places of those that have gone to the other target. It deletes those that are
  // not Ready first; one that becomes Ready meanwhile has the least deletion cost, and gets no requests.
  bool give_up_places() {
    std::vector<const PodSeen*> made = all_pods();
    std::erase_if(made, [](const PodSeen* pod) { return pod->is_ready; });
    std::sort(made.begin(), made.end(), [](const PodSeen* left, const PodSeen* right) {
      return std::tuple{class_of(*left), -left->created_s, left->name} <
             std::tuple{class_of(*right), -right->created_s, right->name};
    });
    const std::uint32_t count =
        std::min({state_.departed, seen_.replicas - wanted_, static_cast<std::uint32_t>(made.size())});
    if (count == 0 || active_of(seen_) > seen_.replicas) return false;
    made.resize(count);
    for (const PodSeen* pod : made)
      if (pod->deletion_cost != kDrainedCost) result_.steps.push_back({PodStepKind::kDrained, pod->name});
    scale(count, false);
    return true;
  }

  // The highest ordinals go, whether they have a pod or not.
  void shrink_ordered() {
    const std::int64_t end = seen_.first_ordinal + wanted_, top = seen_.first_ordinal + seen_.replicas;
    std::vector<const PodSeen*> order = all_pods();
    std::erase_if(order, [&](const PodSeen* pod) { return ordinal_of(pod->name) < end; });
    std::sort(order.begin(), order.end(), [](const PodSeen* left, const PodSeen* right) {
      return ordinal_of(left->name) > ordinal_of(right->name);
    });
    mark({order.begin(), order.end()});
    // Pods beyond the number of replicas are about to be deleted.
    if (!order.empty() && ordinal_of(order.front()->name) >= top) return;
    std::int64_t lowest = end;  // Of the ordinals that go.
    for (const PodSeen* pod : order)
      if (!may_go(*pod)) {
        lowest = ordinal_of(pod->name) + 1;
        break;
      }
    take(static_cast<std::uint32_t>(top - lowest), order);
  }

  std::vector<const PodSeen*> all_pods() const {
    std::vector<const PodSeen*> all;
    for (const PodSeen& pod : seen_.pods) all.push_back(&pod);
    return all;
  }

  // Shrinks by `count`, or says why nothing goes.
  void take(std::uint32_t count, const std::vector<const PodSeen*>& victims) {
    if (count > 0) return scale(count, disrupted_ > 0);
    if (!limited_by_.empty())
      return hold(HoldCause::kBudget, limited_by_,
                  fmt::format("PodDisruptionBudget {} allows no disruption; nothing shrinks", limited_by_));
    for (const PodSeen* pod : victims)
      if (!is_idle(*pod)) return hold(HoldCause::kDraining, pod->name, wait_text(*pod));
  }

  // Nothing is open on the pod, and disruption budgets let it go beside those that were asked about before.
  bool may_go(const PodSeen& pod) {
    if (!is_idle(pod)) return false;
    if (!pod.is_ready) return true;
    for (const BudgetSeen& each : seen_.budgets) {
      const auto spent = state_.budget_versions.find(each.name);
      const std::uint32_t allowed =
          spent != state_.budget_versions.end() && spent->second == each.version ? 0 : each.allowed;
      if (disrupted_ + pod.pods <= allowed) continue;
      limited_by_ = each.name;
      return false;
    }
    disrupted_ += pod.pods;
    return true;
  }

  // The order in which Kubernetes deletes pods without an order. Of equals, those with open requests come first.
  std::vector<const PodSeen*> deletion_order() const {
    std::vector<const PodSeen*> order = all_pods();
    std::sort(order.begin(), order.end(), [this](const PodSeen* left, const PodSeen* right) {
      const auto key = [this](const PodSeen* pod) {
        return std::tuple{class_of(*pod), pod->is_scheduled ? pod->deletion_cost : 0, idle_.contains(pod->name)};
      };
      const auto a = key(left), b = key(right);
      return a != b ? a < b : left->name < right->name;
    });
    return order;
  }

  // Remembers the answer for this tick.
  bool is_idle(const PodSeen& pod) {
    const bool is_so = has_nothing_open(pod);
    if (is_so) idle_.insert(pod.name);
    if (is_so && pod.is_marked && pod.is_ready && state_.drained.insert(pod.name).second)
      learn_drain_time(state_.drain_time, now_ - pod.marked_since);
    return is_so;
  }

  bool has_nothing_open(const PodSeen& pod) {
    if (!pod.is_scheduled) return true;
    if (!pod.is_marked || !has_gateway()) return false;
    if (pod.gateway) {
      const bool is_quiet = !pod.gateway->routes && pod.gateway->open_requests == 0;
      if (!is_quiet || pod.gateway->at < pod.marked_since + limits_.mark_delay) {
        state_.quiet_since.erase(pod.name);
        return false;
      }
    } else if (pod.is_ready) {
      return false;  // It is unknown what is open there.
    }
    const core::Instant since = state_.quiet_since.try_emplace(pod.name, *seen_.gateway_at).first->second;
    const bool has_report = pod.engine && pod.engine->open && pod.engine->at > since;
    if (!has_report) return !pod.is_ready;
    return pod.engine->open->requests == 0 && pod.engine->open->transfers == 0;
  }

  bool has_gateway() const { return seen_.gateway_at && now_ - *seen_.gateway_at <= limits_.gateway_age; }

  std::string wait_text(const PodSeen& pod) const {
    if (!has_gateway()) return "the gateway does not answer, so it is unknown what is open; nothing shrinks";
    if (!pod.gateway) return fmt::format("the gateway does not list {}, so it is unknown what is open there", pod.name);
    return fmt::format("{} is drained once gateway and engine report that nothing is open there", pod.name);
  }

  // Pods beyond the number of replicas, which Kubernetes deletes next.
  std::set<const PodSeen*> leaving() const {
    std::vector<const PodSeen*> order = seen_.is_ordered ? all_pods() : deletion_order();
    if (seen_.is_ordered)
      std::erase_if(
          order, [this](const PodSeen* pod) { return ordinal_of(pod->name) < seen_.first_ordinal + seen_.replicas; });
    else
      order.resize(order.size() - std::min<std::size_t>(order.size(), seen_.replicas));
    return {order.begin(), order.end()};
  }

  // These pods are marked, and no others. Those that leave keep their marks, because their controller may need time. No
  // drain ends without the gateway, or begins on a Ready pod that it does not list; such pods serve behind other
  // gateways.
  void mark(const std::set<const PodSeen*>& victims) {
    const std::set<const PodSeen*> gone = leaving();
    for (const PodSeen& pod : seen_.pods) {
      const bool is_known = has_gateway() && (pod.gateway || pod.is_marked || !pod.is_ready);
      const bool is_wanted = !victims.contains(&pod);
      // A pod whose engine has another role than its pool must not serve, whatever is known.
      const bool is_victim = (is_known && !is_wanted) || !pod.has_role;
      if (is_wanted && !pod.has_role && pod.is_marked && pod.is_ready)
        result_.steps.push_back({PodStepKind::kRestore, pod.name});
      if (!is_victim && gone.contains(&pod)) continue;
      if (is_victim && pod.is_scheduled && !pod.is_marked) result_.steps.push_back({PodStepKind::kMark, pod.name});
      if (!is_victim && (pod.is_marked || has_own_cost(pod))) result_.steps.push_back({PodStepKind::kUnmark, pod.name});
    }
    const auto stays = [&](const std::string& name) {
      return std::none_of(victims.begin(), victims.end(), [&](const PodSeen* pod) { return pod->name == name; });
    };
    std::erase_if(state_.quiet_since, [&](const auto& each) { return stays(each.first); });
    std::erase_if(state_.drained, stays);
  }

  void scale(std::uint32_t fewer, bool disrupts) {
    result_.steps.push_back({PodStepKind::kScale, {}, seen_.replicas - fewer, disrupts});
  }

  PodScaling& state_;
  const std::uint32_t wanted_;
  const TargetSeen& seen_;
  const PodLimits& limits_;
  const core::Instant now_;
  std::set<std::string> idle_;
  std::uint32_t disrupted_ = 0;  // Ready pods that go now.
  std::string limited_by_;       // Name of the budget that keeps a pod.
  PodAdvance result_;
};

// Until Kubernetes has counted the pods that go now, these budgets allow no more.
void spend_budgets(PodScaling& state, const TargetSeen& seen) {
  for (const BudgetSeen& budget : seen.budgets) state.budget_versions[budget.name] = budget.version;
}

}  // namespace

const char* to_string(HoldCause cause) {
  return core::name_of<HoldCause::kDraining>(
      cause, {"none", "no_data", "autoscaler", "manual", "blocked", "rollout", "budget", "draining"});
}

const char* to_string(PodStepKind kind) {
  return core::name_of<PodStepKind::kMove>(kind, {"mark", "unmark", "drained", "scale", "switch", "restore", "move"});
}

std::vector<const PodSeen*> victims_of(const TargetSeen& seen, std::uint32_t wanted) {
  // Places without a pod go without a victim, and so do those of pods that have gone to another target.
  const std::uint32_t surplus = surplus_of(seen, wanted);
  const std::uint32_t count = std::min(active_of(seen), surplus - std::min(surplus, absent_of(seen) + seen.departing));
  std::vector<const PodSeen*> order;
  for (const PodSeen& pod : seen.pods) order.push_back(&pod);
  std::sort(order.begin(), order.end(),
            [](const PodSeen* left, const PodSeen* right) { return goes_before(*left, *right); });
  order.resize(count);
  return order;
}

PodAdvance advance(PodScaling& state, std::optional<std::uint32_t> wanted, const TargetSeen& seen,
                   const PodLimits& limits, core::Instant now) {
  if (!seen.missing.empty()) return {{}, {HoldCause::kNoData, {}, seen.missing}};
  for (const std::string& pod : seen.released) state.departed += static_cast<std::uint32_t>(state.moved.erase(pod));
  if (!wanted) {
    state.known = seen.replicas;
    state.held_until.reset();
    state.is_held_by_planner = false;
    state.departed = 0;
    state.moved.clear();
    state.departures.clear();
    return {};
  }
  return Scaler{state, *wanted, seen, limits, now}.run();
}

void scaled(PodScaling& state, const TargetSeen& seen, const PodStep& step) {
  state.known = step.replicas;
  if (step.replicas < seen.replicas) state.departed -= std::min(state.departed, seen.replicas - step.replicas);
  if (step.disrupts) spend_budgets(state, seen);
}

void moved(PodScaling& state, const TargetSeen& seen, const PodStep& step) {
  state.moved.insert(step.pod);
  spend_budgets(state, seen);
}

}  // namespace penstock::actuation
