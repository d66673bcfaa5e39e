// Whether a request can be served at all: its tenant may use the model, the model exists, and the prompt fits.
#pragma once

#include <cstdint>
#include <optional>

#include "admission/estimator.h"
#include "core/prompt_excess.h"
#include "dispatch/options.h"
#include "dispatch/refusal.h"
#include "dispatch/request.h"

namespace penstock::dispatch {

struct RequestCheck {
  const Tenant& tenant;
  std::optional<std::uint32_t> context_tokens;      // Of the model; empty: the model is not known.
  bool models_complete = true;                      // See Dispatcher::set_models_complete().
  OverContext over_context = OverContext::kReject;  // Of the model.
  std::uint32_t prompt_cap = 0;                     // The smaller one of model and tenant; 0: no limit.

  // Count, excess or refusal; none of them if the request may be opened.
  [[nodiscard]] ArrivalResult result(const RequestInfo& info, const admission::TokenEstimate& estimate) const;
  [[nodiscard]] std::optional<Refusal> objection(const RequestInfo& info,
                                                 const admission::TokenEstimate& estimate) const;
  // Returns true if only a count can tell whether the prompt fits: some tokenizer could fit it, and the estimate with
  // its usual error is above the limit.
  [[nodiscard]] bool needs_count(const RequestInfo& info, const admission::TokenEstimate& estimate) const;
  // What must be dropped from a prompt that exceeds the context or its cap. Without it the prompt is no longer near the
  // limit, so that it is neither counted nor refused; after a count, it keeps a margin for parts of another density.
  // Empty if the prompt fits, or if it is refused instead.
  [[nodiscard]] std::optional<core::PromptExcess> excess(const RequestInfo& info,
                                                         const admission::TokenEstimate& estimate) const;

 private:
  [[nodiscard]] std::uint64_t limit() const;  // The smaller one of model, which is known, and tenant.
  // The most tokens that a prompt may have beside so many tokens of its answer; 0 if the answer leaves none.
  [[nodiscard]] std::uint64_t room_beside(std::uint64_t answer) const;
};

}  // namespace penstock::dispatch
