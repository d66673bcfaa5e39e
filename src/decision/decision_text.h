// A decision as sentences.
#pragma once

#include <string>
#include <vector>

#include "decision/decision.h"

namespace penstock::decision {

// The reason for the target as a clause without a full stop, with the term that determined it: a limit, the forecast,
// the load, likely loads, a larger recent plan, or what simulations promised too much.
[[nodiscard]] std::string because(const DecisionRecord& record);

// Clauses without a full stop, possibly empty.
[[nodiscard]] const char* because(Reason reason);   // "the load is near the target load of the fleet"
[[nodiscard]] const char* limited_by(Limit limit);  // "the GPU budget of all pools"
[[nodiscard]] const char* until(Reason reason);     // what would change a decision for this reason
[[nodiscard]] const char* until(Limit limit);       // what would lift the limit

// The evidence as a sentence: "request_rate 12.4 1/s, target 2 1/s".
[[nodiscard]] std::string sentence(const std::vector<Evidence>& evidence);
[[nodiscard]] inline std::string sentence(const PoolDecision& decision) { return sentence(decision.evidence); }

// What would change the decision, from its limit, its candidates and its evidence: "scales up when request_rate passes
// about 12.4 1/s (now 11.2), down below 9.9 1/s". Never empty.
[[nodiscard]] std::string what_would_change(const DecisionRecord& record);

}  // namespace penstock::decision
