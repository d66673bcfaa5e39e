// Labels of pods by which gateways find them.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "connect/kubernetes/label_selector.h"

namespace penstock::connect {

// llm-d's label for the role of the engine of a pod: "prefill" or "decode".
inline constexpr std::string_view kRoleLabel = "llm-d.ai/role";

// Adds the labels that the selector requires and `labels` lacks. Of several values it takes the first of `preferred`
// that is among them, or else the first. A label that must only exist gets the value "true". What the selector excludes
// stays, so that it may not select the result.
void complete_labels(Labels& labels, const LabelSelector& selector, std::span<const std::string> preferred);

}  // namespace penstock::connect
