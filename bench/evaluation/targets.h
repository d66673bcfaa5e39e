// The targets of the evaluation, and whether they are reached. Every verdict is computed from runs.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "evaluation/evaluation.h"

namespace penstock::evaluation {

struct Verdict {
  std::string trace;            // Its name; "mean" or "worst" of all.
  std::string figure;           // "0.87×"
  std::optional<bool> reached;  // Empty: the target does not apply to this trace.
  std::string beside = {};      // The same figure of the oracle or of the best peer: "oracle 0.95×"; empty: none.
};

struct Target {
  std::string name;  // "GPU-hours at 99 % ÷ best peer tuned on that trace"
  std::string bar;   // "≤ 0.92 on days, ≤ 1.00 on hours"
  std::vector<Verdict> verdicts;

  [[nodiscard]] bool reached() const;  // Everywhere where it applies, and somewhere.
  [[nodiscard]] bool applies() const;
};

// "98.81 %"
[[nodiscard]] std::string percent(double share);

[[nodiscard]] std::vector<Target> targets_of(const Evaluation& evaluation);

}  // namespace penstock::evaluation
