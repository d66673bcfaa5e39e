// Batch requests that wait for spare capacity until their deadline comes near.
#pragma once

#include <optional>
#include <vector>

#include "admission/admission_controller.h"
#include "core/time.h"
#include "dispatch/active_requests.h"
#include "dispatch/answer_times.h"
#include "dispatch/options.h"
#include "dispatch/overview.h"
#include "dispatch/request_router.h"

namespace penstock::dispatch {

// The part of a dispatcher that decides which requests are deferred, until when, and whether they may go earlier. Not
// thread-safe.
class Deferral {
 public:
  Deferral(const DispatchOptions& options, DeferralCounts& counts) : options_(options), counts_(counts) {}

  // Lets the request wait for spare capacity, if the options of its class do.
  void defer(ActiveRequest& request, const RequestInfo& info, admission::Arrival& arrival);
  // That of the router; a deferred request must find spare capacity as well.
  [[nodiscard]] admission::Verdict verdict(const ActiveRequest& request, const RequestRouter::Choice& choice,
                                           RequestRouter& router, core::Instant now) const;
  // The deadline of the queued request is so near that it waits like others from now on. Returns its refusal if the
  // options say so; it is no longer queued then.
  [[nodiscard]] std::optional<admission::Refused> make_due(ActiveRequest& request,
                                                           admission::AdmissionController& admission,
                                                           core::Instant now);

  // The life of a request, for counts and expected times. Calls for requests that were never deferred count nothing.
  void waits() { ++counts_.deferred; }
  void sent(ActiveRequest& request);
  void missed() { ++counts_.missed; }
  void first_token(const ActiveRequest& request, core::Instant now);
  // `concurrent`: requests of each worker of its replica, itself included; 0 if it had none.
  void ended(const ActiveRequest& request, ledger::Outcome outcome, double concurrent, core::Instant now);

 private:
  [[nodiscard]] AnswerTimes& times(const ActiveRequest& request);

  const DispatchOptions& options_;
  DeferralCounts& counts_;
  std::vector<AnswerTimes> times_;  // By ActiveRequest::meters.
};

}  // namespace penstock::dispatch
