#include "evaluation/evaluation.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace penstock::evaluation {

using namespace report;

using decision::RunResult;

namespace {

constexpr double kPeakSlack = 0.001;  // Attainment that a fleet of peak size may lose against larger ones.

double ratio(double part, double whole) {
  if (whole > 0.0) return part / whole;
  return part > 0.0 ? std::numeric_limits<double>::infinity() : 1.0;
}

Verdict compare(const RunResult& run, const RunResult& other) {
  Verdict verdict;
  verdict.points = (run.slo_attainment - other.slo_attainment) * 100.0;
  verdict.violations_ratio = ratio(static_cast<double>(violations(run)), static_cast<double>(violations(other)));
  verdict.gpu_hours_ratio = ratio(run.gpu_hours, other.gpu_hours);
  return verdict;
}

}  // namespace

std::uint64_t violations(const RunResult& result) {
  return static_cast<std::uint64_t>(std::llround((1.0 - result.slo_attainment) * static_cast<double>(result.requests)));
}

double direction_changes_per_hour(const RunResult& result) {
  return result.duration_s > 0.0 ? static_cast<double>(result.direction_changes) * 3600.0 / result.duration_s : 0.0;
}

const RunResult* find_run(std::span<const RunResult> results, std::string_view policy) {
  const auto found =
      std::find_if(results.begin(), results.end(), [&](const auto& run) { return run.policy == policy; });
  return found == results.end() ? nullptr : &*found;
}

double frontier_attainment(std::span<const RunResult> frontier, double gpu_hours) {
  double hours_before = 0.0, kept_before = 0.0;
  for (const RunResult& fleet : frontier) {
    if (fleet.gpu_hours <= hours_before) {  // a fleet that drowns works longer than a larger one
      kept_before = std::max(kept_before, fleet.slo_attainment);
      continue;
    }
    const double kept = std::max(kept_before, fleet.slo_attainment);
    if (gpu_hours <= fleet.gpu_hours) {
      const double share = std::max(0.0, gpu_hours - hours_before) / (fleet.gpu_hours - hours_before);
      return kept_before + share * (kept - kept_before);
    }
    hours_before = fleet.gpu_hours;
    kept_before = kept;
  }
  return kept_before;
}

const RunResult* peak_fleet(std::span<const RunResult> frontier) {
  double best = 0.0;
  for (const RunResult& fleet : frontier) best = std::max(best, fleet.slo_attainment);
  for (const RunResult& fleet : frontier)
    if (fleet.slo_attainment >= best - kPeakSlack) return &fleet;
  return nullptr;
}

Verdict against_frontier(const RunResult& run, std::span<const RunResult> frontier) {
  RunResult bought = run;
  bought.slo_attainment = frontier_attainment(frontier, run.gpu_hours);
  Verdict verdict = compare(run, bought);
  verdict.reached = verdict.points >= 0.0;
  return verdict;
}

Verdict against_clairvoyant(const RunResult& run, const RunResult& clairvoyant, const EvaluationTargets& targets) {
  Verdict verdict = compare(run, clairvoyant);
  verdict.reached =
      verdict.points >= -targets.clairvoyant_points && verdict.gpu_hours_ratio <= targets.clairvoyant_gpu_hours;
  return verdict;
}

Verdict against_peak_fleet(const RunResult& run, const RunResult& fleet, const EvaluationTargets& targets) {
  Verdict verdict = compare(run, fleet);
  verdict.reached = run.slo_attainment >= targets.peak_attainment * fleet.slo_attainment &&
                    verdict.gpu_hours_ratio <= targets.peak_gpu_hours;
  return verdict;
}

Verdict against_rule(const RunResult& run, const RunResult& rule, const EvaluationTargets& targets) {
  Verdict verdict = compare(run, rule);
  const bool fewer_violations =
      static_cast<double>(violations(run)) <= targets.rule_violations * static_cast<double>(violations(rule)) &&
      verdict.gpu_hours_ratio <= 1.0;
  const bool cheaper = verdict.points >= 0.0 && verdict.gpu_hours_ratio <= targets.rule_gpu_hours;
  verdict.reached = fewer_violations || cheaper;
  return verdict;
}

std::uint64_t scale_down_failures(const RunResult& result) {
  std::uint64_t failures = 0;
  for (const decision::FailureCount& failure : result.failures)
    if (failure.reason != "prompt_exceeds_kv_cache" && failure.reason != "replica_crashed")
      failures += failure.requests;
  return failures;
}

}  // namespace penstock::evaluation
