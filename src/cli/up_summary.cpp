#include "cli/up_summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "report/format.h"

namespace penstock::cli {
namespace {

using Document = nlohmann::json;

constexpr std::size_t kNameWidth = 14;

// The number at the key; 0 if it is absent or unknown.
double number_at(const Document& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number() ? found->get<double>() : 0.0;
}

// The sum over the pools of a point; unknown counts are 0.
double sum_at(const Document& point, const char* key) {
  double sum = 0.0;
  const auto found = point.find(key);
  if (found == point.end() || !found->is_array()) return sum;
  for (const Document& count : *found) sum += count.is_number() ? count.get<double>() : 0.0;
  return sum;
}

// GPU-hours of a fleet that always had the most replicas of the run; 0 if it is unknown.
double fixed_gpu_hours(const Document& pools, const Document& points) {
  if (!points.is_array() || points.size() < 2 || pools.empty()) return 0.0;
  double most = 0.0;
  for (const Document& point : points) most = std::max(most, sum_at(point, "ready") + sum_at(point, "starting"));
  const double gpus = number_at(pools.front(), "gpus_per_replica");
  for (const Document& pool : pools)
    if (number_at(pool, "gpus_per_replica") != gpus) return 0.0;
  return most * gpus * (number_at(points.back(), "at_s") - number_at(points.front(), "at_s")) / 3600.0;
}

struct RunFigures {
  std::string name;
  double judged = 0.0, met = 0.0, gpu_hours = 0.0, cost = 0.0, fixed_gpu_hours = 0.0;

  [[nodiscard]] std::string requests_text() const {
    if (judged <= 0.0) return "none that the SLO judges";
    return fmt::format("{} judged by the SLO, attainment {}", report::format_count(static_cast<std::uint64_t>(judged)),
                       report::format_share(met / judged));
  }
  [[nodiscard]] std::string gpu_text() const {
    return fmt::format("{}, GPU cost {} USD", report::format_quantity(gpu_hours), report::format_quantity(cost));
  }
};

std::optional<RunFigures> figures_of(const RunDocuments& run) {
  const Document seen = Document::parse(run.state, nullptr, false);
  if (!seen.is_object() || !seen.contains("slo") || !seen.contains("pools") || !seen["pools"].is_array())
    return std::nullopt;
  RunFigures made;
  if (const auto name = seen.find("deployment"); name != seen.end() && name->is_string())
    made.name = report::printable(name->get<std::string>());
  made.judged = number_at(seen["slo"], "judged");
  made.met = number_at(seen["slo"], "met");
  for (const Document& pool : seen["pools"]) {
    made.gpu_hours += number_at(pool, "gpu_hours");
    made.cost += number_at(pool, "cost");
  }
  made.fixed_gpu_hours = fixed_gpu_hours(seen["pools"], Document::parse(run.points, nullptr, false));
  return made;
}

}  // namespace

std::vector<std::string> deployments_in(std::string_view state) {
  std::vector<std::string> names;
  const Document seen = Document::parse(state, nullptr, false);
  if (!seen.is_object() || !seen.contains("deployments") || !seen["deployments"].is_array()) return names;
  for (const Document& name : seen["deployments"])
    if (name.is_string()) names.push_back(name.get<std::string>());
  return names;
}

std::string run_summary(const std::vector<RunDocuments>& runs) {
  std::vector<RunFigures> all;
  for (const RunDocuments& run : runs) {
    auto figures = figures_of(run);
    if (!figures) return {};
    all.push_back(*std::move(figures));
  }
  if (all.empty()) return {};
  if (all.size() == 1) {
    const RunFigures& one = all.front();
    std::string text = fmt::format("  requests       {}\n  GPU-hours      {}", one.requests_text(), one.gpu_text());
    if (one.fixed_gpu_hours > 0.0)
      text += fmt::format("; a fixed fleet of the peak: {}", report::format_quantity(one.fixed_gpu_hours));
    return text + "\n";
  }
  RunFigures sum{"all"};
  std::size_t width = kNameWidth;
  for (const RunFigures& one : all) {
    sum.judged += one.judged;
    sum.met += one.met;
    sum.gpu_hours += one.gpu_hours;
    sum.cost += one.cost;
    width = std::max(width, one.name.size());
  }
  std::string text;
  all.push_back(sum);
  for (const RunFigures& one : all)
    text += fmt::format("  {:{}} requests: {}; GPU-hours: {}\n", one.name, width, one.requests_text(), one.gpu_text());
  return text;
}

}  // namespace penstock::cli
