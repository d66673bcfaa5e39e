#include "planner/objective_latency.h"

#include <algorithm>
#include <cstddef>
#include <numeric>

namespace penstock::planner {
namespace {

signals::LatencyWindow window_of(std::vector<double>& values_ms) {
  if (values_ms.empty()) return {};
  std::sort(values_ms.begin(), values_ms.end());
  const auto quantile = [&](std::size_t percent) { return values_ms[(values_ms.size() - 1) * percent / 100]; };
  const double sum = std::accumulate(values_ms.begin(), values_ms.end(), 0.0);
  return {values_ms.size(), sum / static_cast<double>(values_ms.size()), quantile(50), quantile(90), quantile(95),
          quantile(99)};
}

}  // namespace

std::vector<ObjectiveLatency> objective_latencies(const signals::Observation& observation,
                                                  const signals::SloPolicy& slo, std::optional<std::uint8_t> pool) {
  std::vector<ObjectiveLatency> made(slo.segments.size() + 1);
  std::vector<std::vector<double>> ttft(made.size()), itl(made.size());
  const core::Instant from = observation.now - core::kMinute;
  for (const signals::RecentRequest& request : observation.recent) {
    if (!request.streamed || request.target >= made.size() || (pool && request.pool != *pool)) continue;
    const auto after = [&](float ms) {
      return request.arrival + core::from_milliseconds(static_cast<double>(request.deferred_ms + ms)) > from;
    };
    const bool is_waiting = request.ttft_ms < 0.0F && request.end == signals::RequestEnd::kNone;
    made[request.target].waits = made[request.target].waits || is_waiting || request.arrival > from;
    if (request.ttft_ms >= 0.0F && after(request.ttft_ms))
      ttft[request.target].push_back(static_cast<double>(request.ttft_ms));
    if (request.itl_ms >= 0.0F && request.output_tokens > 1 && after(request.e2e_ms))
      itl[request.target].push_back(static_cast<double>(request.itl_ms));
  }
  for (std::size_t i = 0; i < made.size(); ++i) {
    made[i].ttft = window_of(ttft[i]);
    made[i].itl = window_of(itl[i]);
  }
  return made;
}

}  // namespace penstock::planner
