#include "report/ranking.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "report/format.h"

namespace penstock::report {

using decision::RunResult;

namespace {

bool is_static(const RunResult& result) { return result.policy == "static"; }

Standing standing_of(const RunResult& result) { return {result.slo_attainment, result.gpu_hours}; }

std::string short_label(const RunResult& result) {
  return is_static(result) ? fmt::format("static {}", result.replicas) : result.policy;
}

std::string label_of(const RunResult& result, const std::vector<RunResult>& all) {
  const std::string label = short_label(result);
  bool same_name = false, other_router = false;
  for (const RunResult& other : all) {
    if (&other == &result || short_label(other) != label) continue;
    same_name = true;
    other_router = other_router || other.router != result.router;
  }
  if (other_router) return fmt::format("{} ({})", label, result.router);
  if (same_name && !is_static(result)) return fmt::format("{} from {}", label, result.replicas);
  return label;
}

// The page finds a result by its label: runs with equal labels get a number.
void number_equal_labels(std::vector<RankedResult>& ranked) {
  std::map<std::string, std::uint32_t> seen;
  for (RankedResult& entry : ranked)
    if (const std::uint32_t times = ++seen[entry.label]; times > 1) entry.label += fmt::format(" #{}", times);
}

std::string gpu_hours(const RunResult& result) { return format_quantity(result.gpu_hours) + " GPU-hours"; }

std::string replicas(const RunResult& result) {
  return fmt::format("{} {}", result.replicas, result.replicas == 1 ? "replica" : "replicas");
}

// The cheapest static fleet with at least the SLO attainment of `best`; without one, the static fleet with the highest
// SLO attainment; null without static fleets.
const RunResult* static_rival(const Report& report, const RunResult& best) {
  const RunResult *cheapest = nullptr, *closest = nullptr;
  const auto consider = [&](const RunResult& result) {
    if (!is_static(result) || &result == &best) return;
    if (closest == nullptr || better(standing_of(result), standing_of(*closest))) closest = &result;
    if (result.slo_attainment < best.slo_attainment) return;
    if (cheapest == nullptr || result.gpu_hours < cheapest->gpu_hours) cheapest = &result;
  };
  for (const auto* results : {&report.frontier, &report.results})
    for (const RunResult& result : *results) consider(result);
  if (report.fixed) consider(report.fixed->result);
  return cheapest != nullptr ? cheapest : closest;
}

std::string against_static(const Report& report, const RunResult& best) {
  const RunResult* rival = static_rival(report, best);
  if (rival == nullptr) return ".";
  if (rival->slo_attainment < best.slo_attainment)
    return fmt::format("; no static fleet that was tried reaches that: the best, {}, has {} at {}.", replicas(*rival),
                       format_share(rival->slo_attainment), gpu_hours(*rival));
  return fmt::format("; the cheapest static fleet with at least the same SLO attainment, {}, needs {} ({}).",
                     replicas(*rival), gpu_hours(*rival), format_difference(rival->gpu_hours, best.gpu_hours));
}

std::string against_scaling(const std::vector<RankedResult>& ranked) {
  const RunResult& best = *ranked.front().result;
  const auto rival = std::find_if(ranked.begin(), ranked.end(), [](const auto& r) { return !is_static(*r.result); });
  if (rival == ranked.end()) return ".";
  return fmt::format("; the best policy that scales, {}, has {} at {} ({}).", rival->label,
                     format_share(rival->result->slo_attainment), gpu_hours(*rival->result),
                     format_difference(rival->result->gpu_hours, best.gpu_hours));
}

}  // namespace

bool better(const Standing& a, const Standing& b) {
  const auto kept = [](const Standing& s) { return std::isfinite(s.slo_attainment) ? s.slo_attainment : -1.0; };
  const auto price = [](const Standing& s) { return std::isfinite(s.gpu_hours) ? s.gpu_hours : HUGE_VAL; };
  if (kept(a) != kept(b)) return kept(a) > kept(b);
  return price(a) < price(b);
}

std::vector<RankedResult> rank(const std::vector<RunResult>& results) {
  std::vector<RankedResult> ranked;
  ranked.reserve(results.size());
  for (const RunResult& result : results) ranked.push_back({&result, label_of(result, results)});
  number_equal_labels(ranked);
  std::stable_sort(ranked.begin(), ranked.end(),
                   [](const auto& a, const auto& b) { return better(standing_of(*a.result), standing_of(*b.result)); });
  return ranked;
}

std::string headline(const Report& report) {
  const std::vector<RankedResult> ranked = rank(report.results);
  if (ranked.empty()) return "No policy was run.";
  const RunResult& best = *ranked.front().result;
  if (best.requests == 0) return "The workload has no requests: there is nothing to compare.";
  const std::string limits = best.targets.size() > 1 ? "the targets of their segments" : format_limits(report.info.slo);
  const std::string first =
      fmt::format("{} has an SLO attainment of {} over {} requests ({}) at {}", ranked.front().label,
                  format_share(best.slo_attainment), format_count(best.requests), limits, gpu_hours(best));
  return first + (is_static(best) ? against_scaling(ranked) : against_static(report, best));
}

}  // namespace penstock::report
