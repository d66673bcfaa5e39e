#include "dispatch/overview.h"

#include "dispatch/active_requests.h"

namespace penstock::dispatch {

DeferralCounts& DeferralCounts::operator+=(const DeferralCounts& other) {
  deferred += other.deferred;
  sent_spare += other.sent_spare;
  sent_due += other.sent_due;
  missed += other.missed;
  return *this;
}

DeferralCounts& DeferralCounts::operator-=(const DeferralCounts& earlier) {
  deferred -= earlier.deferred;
  sent_spare -= earlier.sent_spare;
  sent_due -= earlier.sent_due;
  missed -= earlier.missed;
  return *this;
}

void Counters::sent(const ActiveRequest& request, const Grant& made) {
  if (made.lowers_max_tokens) ++clamped;
  if (made.truncated_prompt_tokens > 0) ++truncated_prompts;
  truncated_prompt_tokens += made.truncated_prompt_tokens;
  if (made.degraded) overload.add(request.tenant, request.traffic_class, admission::OverloadAction::kDegrade);
}

Counters& Counters::operator+=(const Counters& other) {
  granted += other.granted;
  refused += other.refused;
  retried += other.retried;
  clamped += other.clamped;
  truncated_prompts += other.truncated_prompts;
  truncated_prompt_tokens += other.truncated_prompt_tokens;
  discarded_prompt_tokens += other.discarded_prompt_tokens;
  step_tokens += other.step_tokens;
  for (std::size_t i = 0; i < refusals.size(); ++i) refusals[i] += other.refusals[i];
  overload += other.overload;
  deferral += other.deferral;
  for (std::uint32_t i = 0; i < other.moved_to_batch.size(); ++i) move_to_batch(i, other.moved_to_batch[i]);
  return *this;
}

void Counters::move_to_batch(std::uint32_t tenant, std::uint64_t requests) {
  if (tenant >= moved_to_batch.size()) moved_to_batch.resize(tenant + 1);
  moved_to_batch[tenant] += requests;
}

}  // namespace penstock::dispatch
