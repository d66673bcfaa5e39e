#include "dispatch/deferral.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/result.h"

namespace penstock::dispatch {
namespace {

// A request goes to a replica so many expected answer times before its deadline, and at least this part of its window.
constexpr int kAnswersBefore = 2;
constexpr int kWindowPartsBefore = 10;
constexpr std::uint32_t kRetryAfterS = 60;

}  // namespace

AnswerTimes& Deferral::times(const ActiveRequest& request) {
  if (request.meters >= times_.size()) times_.resize(request.meters + 1);
  return times_[request.meters];
}

void Deferral::defer(ActiveRequest& request, const RequestInfo& info, admission::Arrival& arrival) {
  if (request.traffic_class != admission::Class::kBatch) return;
  core::Duration window = options_.batch.completion_window;
  if (window <= core::Duration{}) return;
  if (request.overload == admission::OverloadAction::kShed || request.overload == admission::OverloadAction::kDrop)
    return;
  if (info.completion_window) window = std::min(window, *info.completion_window);
  const core::Duration answer = times(request).answer_time(request.estimate.output_tokens);
  const core::Duration before = std::max(kAnswersBefore * answer, window / kWindowPartsBefore);
  if (window < 2 * before) return;
  request.completion_window = window;
  request.deferred = true;
  arrival.deadline = request.received_at + window;
  arrival.deferred_until = arrival.deadline - before;
  if (const core::Duration most = options_.batch.spare_wait_most; most > core::Duration{})
    arrival.deferred_until = std::min(*arrival.deferred_until, request.received_at + most);
}

admission::Verdict Deferral::verdict(const ActiveRequest& request, const RequestRouter::Choice& choice,
                                     RequestRouter& router, core::Instant now) const {
  const admission::Verdict made = router.verdict(request, choice, now);
  if (made != admission::Verdict::kAdmit || !request.deferred) return made;
  return router.has_spare(request, choice, times_[request.meters], now) ? made : admission::Verdict::kWait;
}

std::optional<admission::Refused> Deferral::make_due(ActiveRequest& request, admission::AdmissionController& admission,
                                                     core::Instant now) {
  request.deferred = false;
  request.due_at = now;
  if (options_.batch.near_deadline == NearDeadline::kSend) return std::nullopt;
  const bool waited = admission.cancelled(request.ticket);
  PENSTOCK_ASSERT(waited, "a request that is due waits");
  admission::Refused refused{request.ticket, {}, true};
  refused.answer.decision = admission::Decision::kRefuseQueueTime;
  refused.answer.retry_after_s = kRetryAfterS;
  refused.answer.own_limit = true;
  refused.answer.why = fmt::format(
      "no replica had spare capacity for the request within {:.1f} s (classes.batch.completion_window, near_deadline: "
      "refuse); {} requests are deferred; retry in {} s",
      core::to_seconds(now - request.received_at), admission.deferred(), kRetryAfterS);
  return refused;
}

void Deferral::sent(ActiveRequest& request) {
  counts_.sent_spare += request.deferred ? 1 : 0;
  counts_.sent_due += request.due_at ? 1 : 0;
  request.deferred = false;
}

void Deferral::first_token(const ActiveRequest& request, core::Instant now) {
  times(request).first_token(now - request.granted_at);
}

void Deferral::ended(const ActiveRequest& request, ledger::Outcome outcome, double concurrent, core::Instant now) {
  if (concurrent > 0.0 && request.entry.itl_ms >= 0.0)
    times(request).ended((request.concurrent_at_start + concurrent) / 2.0, request.entry.itl_ms);
  const bool in_time = now <= request.received_at + request.completion_window;
  if (outcome == ledger::Outcome::kCompleted && request.completion_window > core::Duration{} && !in_time) missed();
}

}  // namespace penstock::dispatch
