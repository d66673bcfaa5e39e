#include "planner/objective_latency.h"

#include <algorithm>
#include <array>
#include <map>

#include "signals/bands.h"

namespace penstock::planner {
namespace {

using signals::RecentRequest;

bool is_after(const RecentRequest& request, float ms, core::Instant from) {
  return request.arrival + core::from_milliseconds(static_cast<double>(request.deferred_ms + ms)) > from;
}

// Of a first token, or a completion, after `from`.
std::optional<double> ttft_after(const RecentRequest& request, core::Instant from) {
  if (request.ttft_ms < 0.0F || !is_after(request, request.ttft_ms, from)) return std::nullopt;
  return static_cast<double>(request.ttft_ms);
}
std::optional<double> itl_after(const RecentRequest& request, core::Instant from) {
  if (request.itl_ms < 0.0F || request.output_tokens <= 1 || !is_after(request, request.e2e_ms, from))
    return std::nullopt;
  return static_cast<double>(request.itl_ms);
}

// Changes the order of the values.
Percentile percentile_of(std::vector<double>& values_ms) {
  if (values_ms.empty()) return {};
  const auto at = values_ms.begin() + static_cast<std::ptrdiff_t>((values_ms.size() - 1) * 95 / 100);
  std::nth_element(values_ms.begin(), at, values_ms.end());
  return {values_ms.size(), *at};
}

// Latencies of requests by what is equal in them, such as the band of their prompts.
using Parts = std::map<std::uint32_t, std::vector<double>>;

struct Contrast {
  double ratio = 0.0;
  std::uint32_t key = 0;
  Percentile latency;
};

Contrast contrast_of(Parts& parts, const ObjectiveRequests& requests) {
  Contrast worst;
  double fine_ms = -1.0;
  for (auto& [key, values] : parts) {
    const Percentile latency = percentile_of(values);
    if (latency.count < requests.samples_min) continue;
    if (latency.p95_ms <= requests.limit_ms)
      fine_ms = std::max(fine_ms, latency.p95_ms);
    else if (latency.p95_ms > worst.latency.p95_ms)
      worst = {0.0, key, latency};
  }
  if (fine_ms >= 0.0) worst.ratio = worst.latency.p95_ms / std::max(1.0, fine_ms);
  return worst;
}

}  // namespace

std::vector<std::vector<ObjectiveLatency>> objective_latencies(const signals::Observation& observation,
                                                               const signals::SloPolicy& slo, std::size_t pools) {
  struct Values {
    std::vector<double> ttft, itl;
  };
  const std::size_t objectives = slo.segments.size() + 1;
  std::vector made(pools, std::vector<ObjectiveLatency>(objectives));
  std::vector<Values> values(pools * objectives);
  const core::Instant from = observation.now - core::kMinute;
  for (const RecentRequest& request : observation.recent) {
    const std::size_t pool = pools == 1 ? 0 : request.pool;
    if (!request.streamed || request.target >= objectives || pool >= pools) continue;
    const bool is_waiting = request.ttft_ms < 0.0F && request.end == signals::RequestEnd::kNone;
    if (is_waiting || request.arrival > from) made[pool][request.target].waits = true;
    Values& of = values[pool * objectives + request.target];
    if (const auto ttft = ttft_after(request, from)) of.ttft.push_back(*ttft);
    if (const auto itl = itl_after(request, from)) of.itl.push_back(*itl);
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    ObjectiveLatency& each = made[i / objectives][i % objectives];
    each.ttft = percentile_of(values[i].ttft);
    each.itl = percentile_of(values[i].itl);
  }
  return made;
}

std::optional<ObjectivePart> latest_part(const signals::Observation& observation, const ObjectiveRequests& requests) {
  enum Kind : std::uint8_t { kPrompt, kOutput, kTenant, kKinds };
  std::array<Parts, kKinds> parts;
  const core::Instant from = observation.now - core::kMinute;
  for (const RecentRequest& request : observation.recent) {
    if (!request.streamed || request.target != requests.objective) continue;
    if (requests.pool && request.pool != *requests.pool) continue;
    const auto ms = requests.is_itl ? itl_after(request, from) : ttft_after(request, from);
    if (!ms) continue;
    const auto band = [](const auto& bands, std::uint32_t tokens) {
      return static_cast<std::uint32_t>(signals::band_of(bands, tokens));
    };
    parts[kPrompt][band(signals::kPromptBands, request.input_tokens)].push_back(*ms);
    if (request.output_tokens > 0) parts[kOutput][band(signals::kOutputBands, request.output_tokens)].push_back(*ms);
    if (request.tenant < observation.tenants.size()) parts[kTenant][request.tenant].push_back(*ms);
  }
  Contrast most;
  std::optional<ObjectivePart> latest;
  for (std::uint8_t kind = 0; kind < kKinds; ++kind) {
    const Contrast contrast = contrast_of(parts[kind], requests);
    if (contrast.ratio <= most.ratio) continue;
    most = contrast;
    const std::uint32_t key = contrast.key;
    latest = {kind == kPrompt   ? std::string{"prompt tokens "} + signals::kPromptBands[key].label
              : kind == kOutput ? std::string{"output tokens "} + signals::kOutputBands[key].label
                                : "tenant " + observation.tenants[key],
              contrast.latency};
  }
  return latest;
}

}  // namespace penstock::planner
