// The visit of the queues of AdmissionController, which admits what may go.
#include <algorithm>

#include "admission/controller_state.h"

namespace penstock::admission {

VisitResult ControllerState::visit(const Waiting& head, std::uint32_t number, std::array<bool, 2>& rejected, Call& call,
                                   std::vector<Record*>& blocked_records) {
  const std::size_t of_class = index_of(head.traffic_class), line = index_of(line_of(head));
  const auto blocked = [&](std::size_t number_of_line, std::size_t number_of_class) {
    return rejected[number_of_line] || call.class_exhausted[number_of_class];
  };
  // Requests that are due count against the budget of their class in the line of another one.
  if (blocked(0, 0) && blocked(0, 1) && blocked(1, 1)) return VisitResult::kStop;
  if (blocked(line, of_class)) return VisitResult::kPass;
  const LimitKind limit = own_limit(head, call.now);
  if (limit == LimitKind::kClassBudget) {
    call.class_exhausted[of_class] = true;
    if (!call.model_of_exhausted_class) call.model_of_exhausted_class = number;
  }
  Record& record = records.find(head.ticket).value();
  record.limit = limit;
  if (limit != LimitKind::kNothing) return VisitResult::kPass;
  if (call.first_waiter && gives_way(head, *call.first_waiter)) return VisitResult::kPass;

  Verdict verdict = Verdict::kWait;  // Admissions since the last verdict have not freed capacity.
  if (record.blocked_in_call != calls) {
    if (call.verdicts == AdmissionController::kVerdictsMax) {
      call.bounded = true;
      return VisitResult::kStop;
    }
    ++call.verdicts;
    verdict = call.verdict_of(head.ticket);
    record.saturated = verdict != Verdict::kAdmit;
  }
  if (verdict == Verdict::kAdmit) return VisitResult::kTake;
  call.model->full_for[precedence_of(head)] = call.now;
  // The limits of requests without headroom are higher.
  if (verdict == Verdict::kReject && !leaves_headroom(action(head.tenant, head.traffic_class), head.traffic_class)) {
    rejected[line] = true;
    return VisitResult::kPass;
  }
  record.blocked_in_call = calls;
  if (record.passed >= AdmissionController::kPassesMax) return VisitResult::kStop;
  blocked_records.push_back(&record);
  return VisitResult::kPass;
}

void ControllerState::drain(std::uint32_t number, ModelQueue& model, Call& call) {
  std::array<bool, 2> rejected{model.queue.size(Class::kInteractive) == 0, model.queue.size(Class::kBatch) == 0};
  std::vector<Record*> blocked_records;
  call.model = &model;
  while (model.queue.size() > 0) {
    if (call.result.admitted.size() == AdmissionController::kAdmittedMax) {
      call.bounded = true;
      return;
    }
    blocked_records.clear();
    if (drops()) call.first_waiter = std::max(first_waiter(model, call.now, false), overloaded_for(model, call.now));
    const auto taken =
        model.queue.pop([&](const Waiting& head) { return visit(head, number, rejected, call, blocked_records); });
    if (!taken) return;
    for (Record* passed : blocked_records) ++passed->passed;
    take(*taken, number, call);
  }
}

void ControllerState::take(const Waiting& taken, std::uint32_t number, Call& call) {
  Record& record = records.find(taken.ticket).value();
  admit(record, call.now);
  record.deferred = false;
  --tenants[taken.tenant].waiting;
  call.result.admitted.push_back({taken.ticket, taken.tenant, number, call.now - taken.since, taken.due});
}

}  // namespace penstock::admission
