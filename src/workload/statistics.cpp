#include "workload/statistics.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include "workload/assembly.h"

namespace penstock::workload {
namespace {

double gap_cv(const std::vector<Request>& requests) {
  if (requests.size() < 3) return 0.0;  // A single gap has no spread.
  const auto gaps = static_cast<double>(requests.size() - 1);
  const double mean = core::to_seconds(requests.back().arrival - requests.front().arrival) / gaps;
  if (mean <= 0.0) return 0.0;
  double squares = 0.0;
  for (std::size_t index = 1; index < requests.size(); ++index) {
    const double gap = core::to_seconds(requests[index].arrival - requests[index - 1].arrival);
    squares += (gap - mean) * (gap - mean);
  }
  return std::sqrt(squares / gaps) / mean;
}

// Adjacent windows from the start. The mean covers the whole span, including a partial last window; a workload shorter
// than a window is its own peak.
double peak_over_mean(const std::vector<Request>& requests, core::Duration span, core::Duration window) {
  if (requests.empty()) return 0.0;
  if (span < window) return 1.0;
  std::uint64_t fullest = 0;
  std::uint64_t count = 0;
  std::int64_t current = 0;
  for (const auto& request : requests) {
    const std::int64_t index = request.arrival.time_since_epoch() / window;
    if (index != current) count = 0;
    current = index;
    fullest = std::max(fullest, ++count);
  }
  const double mean = static_cast<double>(requests.size()) * (core::to_seconds(window) / core::to_seconds(span));
  return std::max(1.0, static_cast<double>(fullest) / mean);  // A partial last window may be the densest.
}

// Hit rate of a single engine with unlimited cache that completes each request before the next arrives: leading full
// prompt blocks that an earlier request used in its prompt or output.
double prefix_reuse(const Workload& workload) {
  const CompactIds compact = compact_ids(workload);
  std::vector<bool> seen(compact.bound, false);
  std::uint64_t reused = 0;
  std::uint64_t prompts = 0;
  for (const auto& request : workload.requests) {
    prompts += request.input_tokens;
    const auto ids = std::span{compact.ids}.subspan(request.first_block, request.block_count);
    const auto full_of = [&](std::uint64_t tokens) {
      return std::min<std::uint64_t>(tokens / workload.block_tokens, ids.size());
    };
    std::uint64_t hits = 0;
    while (hits < full_of(request.input_tokens) && seen[ids[hits]]) ++hits;
    reused += hits * workload.block_tokens;
    const std::uint64_t named = full_of(named_tokens(request, workload.block_tokens));
    for (std::uint64_t block = hits; block < named; ++block) seen[ids[block]] = true;
  }
  return prompts == 0 ? 0.0 : static_cast<double>(reused) / static_cast<double>(prompts);
}

core::Summary summary_of(const std::vector<Request>& requests, std::uint32_t Request::*tokens) {
  std::vector<float> values;
  values.reserve(requests.size());
  for (const auto& request : requests) values.push_back(static_cast<float>(request.*tokens));
  return core::summarize(values);
}

std::uint64_t total(const std::vector<Request>& requests, std::uint32_t Request::*tokens) {
  std::uint64_t sum = 0;
  for (const auto& request : requests) sum += request.*tokens;
  return sum;
}

}  // namespace

Statistics describe(const Workload& workload) {
  Statistics statistics;
  const auto& requests = workload.requests;
  statistics.requests = requests.size();
  statistics.span = workload.span();
  if (requests.empty()) return statistics;
  const double span_s = core::to_seconds(statistics.span);
  const auto per_s = [&](std::uint64_t count) { return span_s > 0.0 ? static_cast<double>(count) / span_s : 0.0; };
  statistics.requests_per_s = per_s(requests.size());
  statistics.gap_cv = gap_cv(requests);
  statistics.peak_10s = peak_over_mean(requests, statistics.span, std::chrono::seconds{10});
  statistics.peak_60s = peak_over_mean(requests, statistics.span, std::chrono::seconds{60});
  statistics.input_tokens = summary_of(requests, &Request::input_tokens);
  statistics.output_tokens = summary_of(requests, &Request::output_tokens);
  statistics.input_tokens_per_s = per_s(total(requests, &Request::input_tokens));
  statistics.output_tokens_per_s = per_s(total(requests, &Request::output_tokens));
  statistics.prefix_reuse = prefix_reuse(workload);

  std::vector<std::uint64_t> of_tenant(workload.tenants.size(), 0);
  for (const auto& request : requests) ++of_tenant[request.tenant];
  statistics.tenants = static_cast<std::uint32_t>(
      std::count_if(of_tenant.begin(), of_tenant.end(), [](std::uint64_t count) { return count > 0; }));
  const auto largest = *std::max_element(of_tenant.begin(), of_tenant.end());
  statistics.largest_tenant = static_cast<double>(largest) / static_cast<double>(requests.size());
  return statistics;
}

}  // namespace penstock::workload
