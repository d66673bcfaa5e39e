#include "cli/up_summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "report/format.h"

namespace penstock::cli {
namespace {

using Document = nlohmann::json;

// The number at the key; 0 if it is absent or unknown.
double number_at(const Document& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number() ? found->get<double>() : 0.0;
}

// GPU-hours of a fleet that always had the most replicas of the run; 0 if it is unknown.
double fixed_gpu_hours(const Document& pools, const Document& points) {
  if (!points.is_array() || points.size() < 2 || !pools.is_array() || pools.empty()) return 0.0;
  double most = 0.0;
  for (const Document& point : points) most = std::max(most, number_at(point, "ready") + number_at(point, "starting"));
  const double gpus = number_at(pools.front(), "gpus_per_replica");
  for (const Document& pool : pools)
    if (number_at(pool, "gpus_per_replica") != gpus) return 0.0;
  return most * gpus * (number_at(points.back(), "at_s") - number_at(points.front(), "at_s")) / 3600.0;
}

}  // namespace

std::string run_summary(std::string_view state, std::string_view points) {
  const Document seen = Document::parse(state, nullptr, false);
  if (!seen.is_object() || !seen.contains("slo") || !seen.contains("pools")) return {};
  const Document& slo = seen["slo"];
  const double judged = number_at(slo, "judged"), met = number_at(slo, "met");
  std::string text = judged > 0.0 ? fmt::format("  requests       {} judged by the SLO, attainment {}\n",
                                                report::format_count(static_cast<std::uint64_t>(judged)),
                                                report::format_share(met / judged))
                                  : "  requests       none that the SLO judges\n";
  double gpu_hours = 0.0, cost = 0.0;
  for (const Document& pool : seen["pools"]) {
    gpu_hours += number_at(pool, "gpu_hours");
    cost += number_at(pool, "cost");
  }
  text += fmt::format("  GPU-hours      {}, GPU cost {} USD", report::format_quantity(gpu_hours),
                      report::format_quantity(cost));
  const Document series = Document::parse(points, nullptr, false);
  if (const double fixed = fixed_gpu_hours(seen["pools"], series); fixed > 0.0)
    text += fmt::format("; a fixed fleet of the peak: {}", report::format_quantity(fixed));
  return text + "\n";
}

}  // namespace penstock::cli
