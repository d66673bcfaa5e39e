// The part of AdmissionController that makes segments give way.
#include <algorithm>

#include <utility>

#include "admission/controller_state.h"
#include "admission/refusal_text.h"

namespace penstock::admission {

bool ControllerState::drops() const {
  return tenants_that_drop > 0 ||
         std::any_of(limits.classes.begin(), limits.classes.end(),
                     [](const ClassLimits& of_class) { return of_class.overload == OverloadAction::kDrop; });
}

bool AdmissionController::drops() const { return state_->drops(); }

std::optional<Precedence> ControllerState::first_waiter(ModelQueue& model, core::Instant now, bool saturated) {
  std::optional<Precedence> first;
  const auto none = model.queue.pop([&](const Waiting& head) {
    const Precedence precedence = precedence_of(head);
    if (first && precedence <= *first) return VisitResult::kPass;
    if (saturated && !records.at(head.ticket).saturated) return VisitResult::kPass;
    const bool waits_for_replica =
        own_limit(head, now) == LimitKind::kNothing && !class_exhausted[index_of(head.traffic_class)];
    if (waits_for_replica) first = precedence;
    return VisitResult::kPass;
  });
  PENSTOCK_ASSERT(!none, "a visit takes nothing");
  return first;
}

std::optional<Precedence> ControllerState::overloaded_for(ModelQueue& model, core::Instant now) {
  std::erase_if(model.full_for, [&](const auto& last) { return now - last.second > kGiveWay; });
  const auto first = model.queue.size() > 0 ? first_waiter(model, now, true) : std::nullopt;
  return model.full_for.empty() ? first : std::max(first, std::optional{model.full_for.rbegin()->first});
}

std::optional<Answer> ControllerState::refuse_without_precedence(const Arrival& arrival) {
  const OverloadAction what = action(arrival.tenant, arrival.traffic_class);
  if (what != OverloadAction::kShed && what != OverloadAction::kDrop) return std::nullopt;
  const auto found = models.find(arrival.model);
  if (found == models.end()) return std::nullopt;
  ModelQueue& model = found->second;
  const Precedence own{arrival.traffic_class, tenants[arrival.tenant].limits.tier};
  const bool gives_way = overloaded_for(model, arrival.now) > own;
  if (what == OverloadAction::kDrop && gives_way)
    return refuse_dropped(arrival.tenant, arrival.traffic_class, arrival.estimate.total(), model, arrival.now);
  if (what == OverloadAction::kShed && gives_way) return refuse_pressure(arrival, whole_seconds(kGiveWay));
  // A request that may not wait must not overtake one that does.
  if (what == OverloadAction::kShed && model.queue.size() > 0 && first_waiter(model, arrival.now, true) >= own)
    return refuse_pressure(arrival);
  return std::nullopt;
}

void ControllerState::drop_outranked(ModelQueue& model, core::Instant now, std::vector<Refused>& refused) {
  if (model.queue.size() == 0) return;
  const auto first = overloaded_for(model, now);
  if (!first) return;
  std::vector<Waiting> leaving;
  for (std::size_t before = 0;; before = leaving.size()) {
    const auto none = model.queue.pop([&](const Waiting& head) {
      if (gives_way(head, *first)) leaving.push_back(head);
      return VisitResult::kPass;
    });
    PENSTOCK_ASSERT(!none, "a visit takes nothing");
    if (leaving.size() == before) break;
    for (std::size_t i = before; i < leaving.size(); ++i) {
      const bool removed = model.queue.remove(leaving[i].ticket);
      PENSTOCK_ASSERT(removed, "the head of a queue is in it");
    }
  }
  std::stable_sort(leaving.begin(), leaving.end(),
                   [](const Waiting& a, const Waiting& b) { return precedence_of(a) < precedence_of(b); });
  for (const Waiting& waiting : leaving) {
    const auto found = records.find(waiting.ticket);
    const bool own = waits_for_own_limit(found->second);
    records.erase(found);
    --tenants[waiting.tenant].waiting;
    Answer answer = refuse_dropped(waiting.tenant, waiting.traffic_class, waiting.tokens, model, now);
    answer.own_limit = own;
    refused.push_back({waiting.ticket, std::move(answer)});
  }
}

}  // namespace penstock::admission
