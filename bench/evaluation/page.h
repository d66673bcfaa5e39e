// The page on the evaluation, docs/evaluation.md.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "evaluation/evaluation.h"

namespace penstock::evaluation {

// One target on one trace.
struct Judgement {
  std::string against;          // "static frontier", "hpa-rate", …
  std::string trace;            // its name
  std::string figures;          // "+0.62 points"
  std::optional<bool> reached;  // none: the target does not speak of this trace
};
// Every target on every trace, by target and then by trace.
[[nodiscard]] std::vector<Judgement> judge(const Evaluation& evaluation);

// Markdown. Charts are linked as `charts`/evaluation-NAME.svg. Equal evaluations give equal bytes: nothing in it comes
// from the wall clock.
[[nodiscard]] std::string evaluation_markdown(const Evaluation& evaluation, std::string_view charts);

}  // namespace penstock::evaluation
