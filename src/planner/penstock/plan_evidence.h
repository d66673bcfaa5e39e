// Figures of a plan for the evidence of a decision.
#pragma once

#include <cstddef>

#include "planner/penstock/plan_loop.h"
#include "planner/penstock/trial_error.h"
#include "planner/policy.h"

namespace penstock::planner {

inline void add_plan_evidence(const LoopPlan& plan, std::size_t pool, PoolDecision& proposal) {
  const PlanBound& bound = plan.bounds[pool];
  std::vector<decision::Evidence>& evidence = proposal.evidence;
  evidence = {{"request_rate", plan.rate, "1/s"},
              {"expected_growth", plan.goal.growth, "times"},
              {"attainment", plan.attainment, "share"},
              {"attainment_at_best", plan.best, "share"}};
  if (!bound.at_minimum) {
    evidence.push_back({"attainment_with_one_fewer_replica", bound.attainment, "share"});
    evidence.push_back({"attainment_needed", bound.needed, "share"});
    evidence.push_back({"misses_allowed", plan.goal.misses, "times"});
  }
  if (!plan.goal.futures.empty()) {
    evidence.push_back({"load_multiple_p50", plan.goal.futures[plan.goal.futures.size() / 2], "times"});
    evidence.push_back({"load_multiple_p97", plan.goal.futures.back(), "times"});
    evidence.push_back({"miss_allowance", plan.goal.allowance, "share"});
    evidence.push_back({"attainment_over_futures", plan.over_futures, "share"});
  }
  if (bound.is_future()) {
    evidence.push_back({"attainment_over_futures_with_one_fewer_replica", bound.over_futures, "share"});
    evidence.push_back({"attainment_over_futures_needed", bound.needed_over_futures, "share"});
  }
  evidence.push_back({"tried_on", plan.requests, "requests"});
}

inline void add_trial_error(const TrialError& error, PoolDecision& proposal) {
  const auto& latest = error.latest();
  if (!latest) return;
  proposal.evidence.push_back({"observed_attainment", latest->observed, "share"});
  proposal.evidence.push_back({"trial_attainment", latest->trial, "share"});
  proposal.evidence.push_back({"trial_error", *error.points(), "points"});
}

}  // namespace penstock::planner
