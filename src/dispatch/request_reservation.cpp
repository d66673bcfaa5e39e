#include "dispatch/request_reservation.h"

#include <algorithm>
#include <cmath>

namespace penstock::dispatch {
namespace {

// The tokens that an answer may have beside the prompt. An engine refuses a request that exceeds its context, so there
// is a margin for the estimate and for the template of a chat.
std::uint32_t context_left(std::uint32_t context_tokens, std::uint64_t prompt_tokens) {
  constexpr std::uint64_t kMargin = 64, kLeast = 16;
  const std::uint64_t prompt = prompt_tokens + prompt_tokens / 8 + kMargin;
  return static_cast<std::uint32_t>(std::max(kLeast, context_tokens - std::min<std::uint64_t>(context_tokens, prompt)));
}

std::uint32_t context_of(const ActiveRequest& request, const Tenant& tenant, const ReplicaSet& replicas) {
  const std::uint32_t context = replicas.context_tokens(request.model);
  return tenant.context_tokens > 0 ? std::min(context, tenant.context_tokens) : context;
}

// Writes max_tokens into a request without it, if a reservation or the cap of its answers (0: none) needs that.
void limit_answers(ActiveRequest& request, const RequestInfo& info, const DispatchOptions& options,
                   std::uint32_t context_tokens, std::uint32_t cap, bool reserves_worst) {
  const std::uint32_t usual =
      info.max_tokens_default.value_or(reserves_worst ? options.max_tokens_default : UINT32_MAX);
  const bool caps_answers = cap > 0 && cap < usual;
  if (!reserves_worst && !caps_answers) return;
  // A counted prompt needs no margin.
  const std::uint64_t prompt = request.estimate.prompt_tokens / info.prompts;
  const std::uint32_t left = info.prompt_was_counted && info.prompt_tokens_given > 0
                                 ? static_cast<std::uint32_t>(std::max<std::uint64_t>(
                                       1, context_tokens - std::min<std::uint64_t>(context_tokens, prompt)))
                                 : context_left(context_tokens, prompt);
  request.max_tokens = std::min({usual, left, caps_answers ? cap : usual});
  request.lowered = caps_answers && cap <= left;
  request.writes_max_tokens = true;
  request.estimate.output_tokens = std::min(request.estimate.output_tokens, *request.output_tokens_most());
}

// The most that the request can use. A replayed one uses what was recorded, of which the answer is known.
admission::ReservationRequest most_of(const ActiveRequest& request, const RequestInfo& info, double capacity) {
  admission::ReservationRequest most;
  most.capacity = capacity;
  most.prompt_tokens = request.estimate.prompt_tokens;
  most.answers = info.answers;
  if (info.known_output_tokens == 0) {
    most.prompt_tokens_most = request.prompt_tokens_most;
    most.max_tokens = *request.max_tokens;
    return most;
  }
  most.max_tokens = std::min(info.known_output_tokens, request.max_tokens.value_or(UINT32_MAX));
  most.prompt_tokens_most = std::max<std::uint64_t>(
      most.prompt_tokens, info.recorded_reservation - std::min(info.recorded_reservation, most.max_tokens));
  return most;
}

}  // namespace

void reserve(ActiveRequest& request, const RequestInfo& info, const DispatchOptions& options,
             const ReplicaSet& replicas, double capacity) {
  const Tenant& tenant = options.tenants[request.tenant];
  const bool worst = !std::isinf(capacity) && tenant.reserve == admission::Reserve::kWorst;
  const bool is_known = info.known_output_tokens > 0;
  const std::uint32_t cap = tighter(tenant.caps, replicas.model(request.model).caps).completion_tokens;
  if (!info.max_tokens)
    limit_answers(request, info, options, context_of(request, tenant, replicas), cap, worst && !is_known);
  request.claim = admission::claim_of(request.estimate);
  if (!worst) return;
  const admission::ReservationRequest wanted = most_of(request, info, capacity);
  const admission::Reservation made = admission::reserve_worst_case(wanted);
  request.claim = made.claim;
  // An answer that fits keeps its limit, and the estimate does not learn its length in advance.
  if (is_known && made.max_tokens == wanted.max_tokens) return;
  request.lowered = request.lowered || is_known || (info.max_tokens && made.max_tokens < *info.max_tokens);
  request.writes_max_tokens = request.writes_max_tokens || request.lowered;
  request.max_tokens = made.max_tokens;
  request.estimate.output_tokens = std::min(request.estimate.output_tokens, *request.output_tokens_most());
}

}  // namespace penstock::dispatch
