#include "replay/run_notes.h"

#include <fmt/format.h>

#include "replay/policies.h"
#include "report/format.h"

namespace penstock::replay {
namespace {

std::string settings_of(const configuration::PlannerSetup& planner) {
  const bool has_warm_pool = planner.options.schedule.warm_pool > 0;
  if (planner.schedules.empty()) return has_warm_pool ? "the warm pool is" : "";
  return has_warm_pool ? "schedules and the warm pool are" : "schedules are";
}

}  // namespace

std::vector<std::string> run_notes(std::span<const decision::RunResult> results,
                                   const configuration::PlannerSetup& planner) {
  std::vector<std::string> notes;
  std::string others;
  for (const decision::RunResult& result : results) {
    if (is_clairvoyant(result.policy) && result.goal && result.slo_attainment < *result.goal)
      notes.push_back(fmt::format(
          "{}: its SLO attainment of {} misses the goal of {}, which no fleet that starts like it reached; a larger "
          "maximum, more replicas at the start or a shorter start-up raise what is possible",
          result.policy, report::format_share(result.slo_attainment), report::format_goal(*result.goal)));
    if (!is_penstock(result.policy)) others += (others.empty() ? "" : ", ") + result.policy;
  }
  if (const std::string settings = settings_of(planner); !settings.empty() && !others.empty())
    notes.push_back(fmt::format("{} part of the policy {}, and not of {}", settings, configuration::kPenstock, others));
  return notes;
}

}  // namespace penstock::replay
