#include "admission/overload.h"

#include "core/enum_names.h"

namespace penstock::admission {

const char* to_string(OverloadAction action) {
  return core::name_of<OverloadAction::kShed>(action, {"queue", "degrade", "drop", "shed"});
}

OverloadAction action_of(std::optional<OverloadAction> of_tenant, OverloadAction of_class, core::Duration queue_time) {
  if (queue_time == core::Duration{}) return OverloadAction::kShed;
  return of_tenant.value_or(of_class);
}

std::optional<std::uint32_t> degraded_max_tokens(std::optional<std::uint32_t> max_tokens, std::uint64_t waiting_tokens,
                                                 const DegradeLimits& limits) {
  if (waiting_tokens <= limits.above_waiting_tokens) return std::nullopt;
  if (max_tokens && *max_tokens <= limits.max_tokens) return std::nullopt;
  return limits.max_tokens;
}

}  // namespace penstock::admission
