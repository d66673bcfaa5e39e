#include "simulation/traffic_history.h"

#include <algorithm>
#include <cstdint>

#include "core/result.h"

namespace penstock::simulation {

std::vector<forecast::TrafficSample> traffic_history(const workload::Workload& workload, core::Duration interval) {
  PENSTOCK_ASSERT(interval > core::Duration{}, "an interval has a length");
  const std::int64_t end = workload.span() / interval;
  const std::int64_t begin = std::max<std::int64_t>(0, end - forecast::kHistoryMax / interval);
  std::vector<forecast::TrafficSample> history;
  history.reserve(static_cast<std::size_t>(end - begin));
  auto request = std::partition_point(
      workload.requests.begin(), workload.requests.end(),
      [&](const workload::Request& each) { return each.arrival < core::kStart + begin * interval; });
  for (std::int64_t number = begin; number < end; ++number) {
    const core::Instant until = core::kStart + (number + 1) * interval;
    std::uint64_t count = 0, input = 0, output = 0;
    for (; request != workload.requests.end() && request->arrival < until; ++request) {
      ++count;
      input += request->input_tokens;
      output += request->output_tokens;
    }
    auto& sample = history.emplace_back();
    sample.at = until;
    sample.requests_per_s = static_cast<double>(count) / core::to_seconds(interval);
    if (count == 0) continue;
    sample.input_tokens = static_cast<double>(input) / static_cast<double>(count);
    sample.output_tokens = static_cast<double>(output) / static_cast<double>(count);
  }
  return history;
}

}  // namespace penstock::simulation
