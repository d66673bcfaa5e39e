// The reasons for refusing a request.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "admission/admission_controller.h"

namespace penstock::dispatch {

enum class RefusalReason : std::uint8_t {
  kModelNotFound,
  kContextLengthExceeded,
  kTokenBudgetExceeded,
  kTooManyRequests,  // Too many requests of its tenant are running.
  kQueueFull,
  kQueueTimeout,  // The maximum time in the queue was reached.
  kEnginesFull,   // All engines are full, and its segment sheds.
  kNoReplica,     // No replica serves its model now.
  kDropped,       // Its segment drops, and a request with precedence waits.
};
inline constexpr std::size_t kRefusalReasons = 9;
[[nodiscard]] const char* to_string(
    RefusalReason reason);  // "model_not_found", …, as clients, metrics and logs have it

struct Refusal {
  RefusalReason reason = RefusalReason::kEnginesFull;
  std::string message;              // A sentence that names the limit, its value and the observed value.
  std::uint32_t retry_after_s = 0;  // 0 if a later attempt is refused, too.
  bool is_work = true;              // As ArrivalResult::is_work.
  // Of its tenant, where a limit of the tenant or class may be the reason.
  admission::RateLimits rate_limits{};
};

// The refusal of the admission controller. `served`: at least one replica serves the model, ready or not.
[[nodiscard]] Refusal refusal_of(const admission::Answer& answer, std::string_view model, bool served);

// Of a request for a model that a replica may serve whose models are not known yet.
[[nodiscard]] Refusal not_known_yet(std::string_view model);

}  // namespace penstock::dispatch
