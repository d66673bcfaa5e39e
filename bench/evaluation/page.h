// The page on the evaluation, docs/evaluation.md.
#pragma once

#include <string>
#include <string_view>

#include "evaluation/evaluation.h"

namespace penstock::evaluation {

// Markdown. Charts are linked as `charts`/evaluation-NAME.svg. Equal evaluations give equal bytes: nothing in it comes
// from the wall clock.
[[nodiscard]] std::string evaluation_markdown(const Evaluation& evaluation, std::string_view charts);

}  // namespace penstock::evaluation
