// The visit of the queues of AdmissionController, which admits what may go.
#include <algorithm>

#include "admission/controller_state.h"

namespace penstock::admission {

VisitResult ControllerState::visit(const Waiting& head, std::uint32_t number, std::array<bool, 2>& rejected, Call& call,
                                   std::vector<Record*>& blocked_records) {
  const std::size_t of_class = index_of(head.traffic_class);
  const auto blocked = [&](std::size_t number_of_class) {
    return rejected[number_of_class] || call.class_exhausted[number_of_class];
  };
  if (blocked(0) && blocked(1)) return VisitResult::kStop;
  if (blocked(of_class)) return VisitResult::kPass;
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
    rejected[of_class] = true;
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
    admit(records.find(taken->ticket).value(), call.now);
    --tenants[taken->tenant].waiting;
    call.result.admitted.push_back({taken->ticket, taken->tenant, number, call.now - taken->since});
  }
}

}  // namespace penstock::admission
