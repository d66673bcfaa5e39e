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

}  // namespace

void reserve(ActiveRequest& request, const RequestInfo& info, const DispatchOptions& options,
             const ReplicaSet& replicas, double capacity) {
  request.claim = {request.estimate.total(), request.estimate.total()};
  const Tenant& tenant = options.tenants[request.tenant];
  admission::ReservationRequest wanted;
  wanted.capacity = capacity;
  if (std::isinf(wanted.capacity) || tenant.reserve == admission::Reserve::kExpected) return;
  std::uint32_t context = replicas.context_tokens(request.model);
  if (tenant.context_tokens > 0) context = std::min(context, tenant.context_tokens);
  wanted.prompt_tokens = request.estimate.prompt_tokens;
  wanted.prompt_tokens_most = request.prompt_tokens_most;
  wanted.answers = info.answers;
  wanted.max_tokens = info.max_tokens;
  wanted.max_tokens_default = std::min(info.max_tokens_default.value_or(options.max_tokens_default),
                                       context_left(context, wanted.prompt_tokens / info.prompts));
  const admission::Reservation made = admission::reserve_worst_case(wanted);
  request.claim = made.claim;
  request.lowered = info.max_tokens && made.max_tokens < *info.max_tokens;
  request.writes_max_tokens = info.writes_max_tokens || request.lowered || !info.max_tokens;
  request.max_tokens = made.max_tokens;
  request.estimate.output_tokens = std::min(request.estimate.output_tokens, *request.output_tokens_most());
}

}  // namespace penstock::dispatch
