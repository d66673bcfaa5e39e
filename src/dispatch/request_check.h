// Whether a request can be served at all: its tenant may use the model, the model exists, and the prompt fits.
#pragma once

#include <cstdint>
#include <optional>

#include "admission/estimator.h"
#include "dispatch/options.h"
#include "dispatch/refusal.h"
#include "dispatch/request.h"

namespace penstock::dispatch {

struct RequestCheck {
  const Tenant& tenant;
  std::optional<std::uint32_t> context_tokens;  // Of the model; empty: the model is not known.
  bool models_complete = true;                  // See Dispatcher::set_models_complete().

  [[nodiscard]] std::optional<Refusal> objection(const RequestInfo& info,
                                                 const admission::TokenEstimate& estimate) const;
  // Returns true if only a count can tell whether the prompt fits: some tokenizer could fit it, and the estimate with
  // its usual error is above the limit.
  [[nodiscard]] bool needs_count(const RequestInfo& info, const admission::TokenEstimate& estimate) const;
};

}  // namespace penstock::dispatch
