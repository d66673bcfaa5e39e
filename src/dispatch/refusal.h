// Why a request goes nowhere.
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
  kTooManyRequests,  // of its tenant are running
  kQueueFull,
  kQueueTimeout,  // it waited as long as it may
  kEnginesFull,   // and its class may not wait
  kNoReplica,     // serves its model now
};
inline constexpr std::size_t kRefusalReasons = 8;
[[nodiscard]] const char* to_string(
    RefusalReason reason);  // "model_not_found", …, as clients, metrics and logs have it

struct Refusal {
  RefusalReason reason = RefusalReason::kEnginesFull;
  std::string message;              // a sentence that names the limit, its value and what was seen
  std::uint32_t retry_after_s = 0;  // 0: a later attempt is refused, too
};

// What the admission controller refused. `served`: some replica serves the model, ready or not.
[[nodiscard]] Refusal refusal_of(const admission::Answer& answer, std::string_view model, bool served);

}  // namespace penstock::dispatch
