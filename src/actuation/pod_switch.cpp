#include "actuation/pod_switch.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace penstock::actuation {
namespace {

bool may_exchange(const ExchangeSide& side) {
  const bool is_held = side.held == HoldCause::kAutoscaler || side.held == HoldCause::kManual;
  return side.wanted && !is_held && side.seen.missing.empty() && side.seen.autoscaler.empty() &&
         !side.seen.has_rollout && !side.seen.is_ordered;
}

std::uint32_t minus(std::uint32_t left, std::uint32_t right) { return left - std::min(left, right); }

template <class Holds>
std::uint32_t count(const TargetSeen& seen, Holds holds) {
  return static_cast<std::uint32_t>(std::count_if(seen.pods.begin(), seen.pods.end(), holds));
}

// Pods that `from` does not need, in the order in which they go, without those that cannot go to another target.
std::vector<PodSeen*> candidates_of(const ExchangeSide& from) {
  std::vector<PodSeen*> found;
  const std::vector<const PodSeen*> order = victims_of(from.seen, *from.wanted);
  // Pods beyond the number of replicas are about to be deleted.
  const std::size_t deleted = from.seen.pods.size() - std::min<std::size_t>(from.seen.pods.size(), from.seen.replicas);
  for (std::size_t i = deleted; i < order.size(); ++i)
    if (order[i]->is_ready && order[i]->can_switch)
      for (PodSeen& pod : from.seen.pods)
        if (&pod == order[i]) found.push_back(&pod);
  return found;
}

class Exchange {
 public:
  Exchange(ExchangeSide& from, ExchangeSide& to, const RoleSwitch& by, core::Instant now)
      : from_(from), to_(to), by_(by), now_(now), candidates_(candidates_of(from)) {
    ready_ = count(to_.seen, [](const PodSeen& pod) { return pod.is_ready; });
    const std::uint32_t placed = count(to_.seen, [](const PodSeen& pod) { return pod.is_scheduled; });
    // Pods that Kubernetes has made in the places of those that come.
    std::uint32_t made = 0;
    for (const PodSeen* pod : candidates_) made += has_place(*pod) ? 1 : 0;
    lacks_ready_ = minus(*to_.wanted, ready_ + to_.seen.joining);
    // One that comes takes the place of a pod that is not Ready.
    const std::uint32_t there = placed - std::min(made, minus(placed, ready_)) + to_.seen.joining;
    lacks_placed_ = minus(*to_.wanted, std::min(there, to_.seen.replicas));
  }

  void choose() {
    for (PodSeen* pod : candidates_)
      if (pod->is_committed && chosen_ < lacks_ready_ && (pod->has_next_role || is_in_time(*pod))) take(*pod);
    for (PodSeen* pod : candidates_)
      if (departure_of(*pod) != nullptr && departure_of(*pod)->is_chosen) take_if_lacking(*pod);
    if (actuation::is_in_time(from_.state.drain_time.value_or(core::Duration{}), by_))
      for (PodSeen* pod : candidates_) take_if_lacking(*pod);
  }

  // Places are asked for only when their pods are about to come.
  [[nodiscard]] std::uint32_t asked() const {
    return std::max(std::min(*to_.wanted, to_.seen.replicas), minus(*to_.wanted, expected_));
  }

  void let_join() {
    std::uint32_t places = minus(to_.seen.replicas, ready_ + to_.seen.joining);
    for (PodSeen* pod : candidates_) {
      if (!pod->leaves || !pod->has_next_role) continue;
      std::optional<std::uint32_t>& place = from_.state.departures.at(pod->name).place;
      if (!place) place = to_.seen.replicas + 1 + waiting();
      if (places == 0 || !(has_place(*pod) || to_.held == HoldCause::kBlocked)) continue;
      pod->may_join = to_.seen.is_settled;
      --places;
    }
  }

  void forget_others() {
    std::map<std::string, Departure> kept;
    for (const PodSeen* pod : candidates_)
      if (const Departure* const known = departure_of(*pod)) {
        kept[pod->name] = *known;
        kept[pod->name].is_chosen = pod->leaves;
      }
    from_.state.departures = std::move(kept);
  }

 private:
  [[nodiscard]] const Departure* departure_of(const PodSeen& pod) const {
    const auto found = from_.state.departures.find(pod.name);
    return found == from_.state.departures.end() ? nullptr : &found->second;
  }
  // A replica was asked for in whose place it comes. At the wanted number no other one can be.
  [[nodiscard]] bool has_place(const PodSeen& pod) const {
    const Departure* const known = departure_of(pod);
    return known != nullptr && known->place && to_.seen.replicas >= std::min(*known->place, *to_.wanted);
  }
  // Pods in whose places no replica was asked for yet.
  [[nodiscard]] std::uint32_t waiting() const {
    return static_cast<std::uint32_t>(std::count_if(candidates_.begin(), candidates_.end(), [this](const PodSeen* pod) {
      return pod->leaves && departure_of(*pod)->place && !has_place(*pod);
    }));
  }
  [[nodiscard]] core::Instant since(const PodSeen& pod) const {
    const Departure* const known = departure_of(pod);
    const core::Instant begin = known == nullptr ? now_ : known->since;
    return pod.is_marked ? std::min(begin, pod.marked_since) : begin;
  }
  [[nodiscard]] bool is_in_time(const PodSeen& pod) const { return actuation::is_in_time(now_ - since(pod), by_); }

  void take_if_lacking(PodSeen& pod) {
    if (!pod.leaves && chosen_ < lacks_placed_ && is_in_time(pod)) take(pod);
  }
  void take(PodSeen& pod) {
    from_.state.departures.try_emplace(pod.name, Departure{since(pod)});
    pod.leaves = true;
    ++chosen_;
    if (!pod.has_next_role) ++expected_;
  }

  ExchangeSide &from_, &to_;
  const RoleSwitch& by_;
  const core::Instant now_;
  const std::vector<PodSeen*> candidates_;
  std::uint32_t ready_ = 0, lacks_ready_ = 0, lacks_placed_ = 0;
  std::uint32_t chosen_ = 0, expected_ = 0;  // Of the former, those that have not their new role yet.
};

}  // namespace

std::optional<std::uint32_t> exchange(ExchangeSide from, ExchangeSide to, const RoleSwitch& by, core::Instant now) {
  if (!may_exchange(from) || !may_exchange(to)) {
    from.state.departures.clear();
    return to.wanted;
  }
  Exchange exchange{from, to, by, now};
  exchange.choose();
  exchange.let_join();
  exchange.forget_others();
  return exchange.asked();
}

}  // namespace penstock::actuation
