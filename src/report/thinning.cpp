#include "report/thinning.h"

#include <algorithm>
#include <span>

namespace penstock::report {

using decision::SeriesPoint;

namespace {

// `start` is where the first point's interval begins.
SeriesPoint merge(std::span<const SeriesPoint> points, core::Instant start) {
  SeriesPoint merged = points.back();
  double arrivals = 0.0, input = 0.0, output = 0.0, ttft_p50 = 0.0, itl_p50 = 0.0;
  merged.first_tokens = merged.completed = merged.arrived = merged.judged = merged.met_slo = 0;
  merged.ttft_p95_ms = merged.itl_p95_ms = 0.0;
  core::Instant begin = start;
  for (const SeriesPoint& point : points) {
    const double seconds = core::to_seconds(point.at - begin);
    begin = point.at;
    arrivals += point.arrivals_per_s * seconds;
    input += point.input_tokens_per_s * seconds;
    output += point.output_tokens_per_s * seconds;
    ttft_p50 += point.ttft_p50_ms * static_cast<double>(point.first_tokens);
    itl_p50 += point.itl_p50_ms * static_cast<double>(point.completed);
    merged.first_tokens += point.first_tokens;
    merged.completed += point.completed;
    merged.arrived += point.arrived;
    merged.judged += point.judged;
    merged.met_slo += point.met_slo;
    merged.queued_requests = std::max(merged.queued_requests, point.queued_requests);
    merged.running_requests = std::max(merged.running_requests, point.running_requests);
    merged.kv_usage = std::max(merged.kv_usage, point.kv_usage);
    // A point without events has no percentiles.
    if (point.first_tokens > 0) merged.ttft_p95_ms = std::max(merged.ttft_p95_ms, point.ttft_p95_ms);
    if (point.completed > 0) merged.itl_p95_ms = std::max(merged.itl_p95_ms, point.itl_p95_ms);
  }
  const double seconds = core::to_seconds(merged.at - start);
  const auto rate = [seconds](double total) { return seconds > 0.0 ? total / seconds : 0.0; };
  merged.arrivals_per_s = rate(arrivals);
  merged.input_tokens_per_s = rate(input);
  merged.output_tokens_per_s = rate(output);
  merged.ttft_p50_ms = merged.first_tokens > 0 ? ttft_p50 / static_cast<double>(merged.first_tokens) : 0.0;
  merged.itl_p50_ms = merged.completed > 0 ? itl_p50 / static_cast<double>(merged.completed) : 0.0;
  return merged;
}

}  // namespace

std::vector<SeriesPoint> thin(const std::vector<SeriesPoint>& series, std::size_t points) {
  points = std::max<std::size_t>(1, points);
  if (series.size() <= points) return series;
  std::vector<SeriesPoint> thinned;
  thinned.reserve(points);
  const std::size_t width = (series.size() + points - 1) / points;
  core::Instant start = core::kStart;
  for (std::size_t first = 0; first < series.size(); first += width) {
    thinned.push_back(merge(std::span{series}.subspan(first, std::min(width, series.size() - first)), start));
    start = thinned.back().at;
  }
  return thinned;
}

}  // namespace penstock::report
