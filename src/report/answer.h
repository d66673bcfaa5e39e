// The answer of a replay: what reaches the goal of the SLO at the lowest cost.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "report/run_info.h"

namespace penstock::report {

// Returns true if the attainment of a run is at least `goal`; with segments, if each target reached its own goal.
[[nodiscard]] bool reaches_goal(const decision::RunResult& result, double goal);
// Orders runs by GPU cost, then by GPU-hours.
[[nodiscard]] bool is_cheaper(const decision::RunResult& a, const decision::RunResult& b);

// A run of one kind: the cheapest that reaches the goal; if none does, the one with the highest attainment.
struct Choice {
  const decision::RunResult* result = nullptr;  // Points into the report; null: there was no run of the kind.
  std::string label;                            // "3 replicas", "keda-tokens".
  bool reaches = false;
};

struct Answer {
  double goal = 0.0;
  Choice fixed, rule, penstock;  // A fixed fleet, a rule of others, Penstock's own policy.
  std::string text;              // Which of them is the cheapest, and what the others cost. Empty if no fixed fleet
                                 // was searched.

  [[nodiscard]] std::vector<std::pair<const char*, const Choice*>> choices() const;  // With their kinds.
};

// The choices point into `report`, which must outlive the answer.
[[nodiscard]] Answer answer_of(const Report& report);

}  // namespace penstock::report
