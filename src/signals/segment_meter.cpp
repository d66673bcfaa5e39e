#include "signals/segment_meter.h"

#include <algorithm>
#include <vector>

#include "core/traffic_class.h"

namespace penstock::signals {

void SegmentMeter::Latencies::merge(const Latencies& other) {
  ttft_ms.merge(other.ttft_ms);
  itl_ms.merge(other.itl_ms);
}

SegmentMeter::Latencies& SegmentMeter::tenant_in(Slice& slice, std::uint32_t tenant) {
  const auto known = slice.tenants.find(tenant);
  if (known != slice.tenants.end()) return known->second;
  return slice.tenants[slice.tenants.size() < kTenantsTracked ? tenant : kOthers];
}

SegmentMeter::Latencies* SegmentMeter::route_in(Slice& slice, std::string_view route) {
  if (route.empty()) return nullptr;
  const auto known = slice.routes.find(route);
  if (known != slice.routes.end()) return &known->second;
  return slice.routes.size() < kRoutesTracked ? &slice.routes[route] : nullptr;
}

void SegmentMeter::first_token(core::Instant at, const RequestTraits& request, const FirstTokenTimes& times) {
  Slice& slice = slices_.at(at);
  const std::array<core::Duration, kParts> parts = {times.admission, times.replica_wait, times.queue, times.prefill,
                                                    times.transfer};
  core::Duration ttft{};
  for (const core::Duration part : parts) ttft += part;
  const bool slow = ttft > times.limit.value_or(ttft_limit_);
  slice.slow += slow ? 1 : 0;
  for (std::size_t i = 0; i < kParts; ++i) {
    const double part_ms = core::to_milliseconds(std::max(parts[i], core::Duration{}));
    slice.part_ms[i].add(part_ms);
    if (slow) slice.slow_sum_ms[i] += part_ms;
  }
  const double ttft_ms = std::max(0.0, core::to_milliseconds(ttft));
  slice.fixed[band_of(kPromptBands, request.input_tokens)].ttft_ms.add(ttft_ms);
  slice.fixed[kClasses + (request.batch ? 1U : 0U)].ttft_ms.add(ttft_ms);
  slice.fixed[kCache + (request.cache_hit ? 1U : 0U)].ttft_ms.add(ttft_ms);
  tenant_in(slice, request.tenant).ttft_ms.add(ttft_ms);
  if (Latencies* route = route_in(slice, request.route)) route->ttft_ms.add(ttft_ms);
}

void SegmentMeter::completed(core::Instant at, const RequestTraits& request, std::uint32_t output_tokens,
                             const CompletionTimes& times) {
  Slice& slice = slices_.at(at);
  Latencies& output = slice.fixed[kOutputs + band_of(kOutputBands, output_tokens)];
  if (times.ttft_ms) output.ttft_ms.add(*times.ttft_ms);
  if (output_tokens <= 1 || !times.itl_ms) return;
  const double itl_ms = *times.itl_ms;
  output.itl_ms.add(itl_ms);
  slice.fixed[band_of(kPromptBands, request.input_tokens)].itl_ms.add(itl_ms);
  slice.fixed[kClasses + (request.batch ? 1U : 0U)].itl_ms.add(itl_ms);
  slice.fixed[kCache + (request.cache_hit ? 1U : 0U)].itl_ms.add(itl_ms);
  tenant_in(slice, request.tenant).itl_ms.add(itl_ms);
  if (Latencies* route = route_in(slice, request.route)) route->itl_ms.add(itl_ms);
}

PoolDetail SegmentMeter::read(core::Instant now, std::span<const std::string> tenants) const {
  Slice sum;
  slices_.each(now, [&](const Slice& slice) {
    for (std::size_t i = 0; i < kFixed; ++i) sum.fixed[i].merge(slice.fixed[i]);
    for (const auto& [tenant, latencies] : slice.tenants) sum.tenants[tenant].merge(latencies);
    for (const auto& [route, latencies] : slice.routes) sum.routes[route].merge(latencies);
    for (std::size_t i = 0; i < kParts; ++i) {
      sum.part_ms[i].merge(slice.part_ms[i]);
      sum.slow_sum_ms[i] += slice.slow_sum_ms[i];
    }
    sum.slow += slice.slow;
  });

  PoolDetail detail;
  const auto part = [&](std::size_t i) {
    const double slow_mean = sum.slow == 0 ? 0.0 : sum.slow_sum_ms[i] / static_cast<double>(sum.slow);
    return TimePart{sum.part_ms[i].mean(), sum.part_ms[i].quantile(0.95), slow_mean};
  };
  detail.first_tokens = {sum.part_ms[0].count(), sum.slow, part(0), part(1), part(2), part(3), part(4)};

  const auto add = [&](const char* dimension, std::string_view label, const Latencies& from) {
    if (from.ttft_ms.count() + from.itl_ms.count() == 0) return;
    detail.segments.push_back(
        {dimension, std::string{label}, latency_window(from.ttft_ms), latency_window(from.itl_ms)});
  };
  for (std::size_t i = 0; i < kPromptBands.size(); ++i) add("prompt tokens", kPromptBands[i].label, sum.fixed[i]);
  for (std::size_t i = 0; i < kOutputBands.size(); ++i)
    add("output tokens", kOutputBands[i].label, sum.fixed[kOutputs + i]);
  add("traffic class", core::kInteractiveClass, sum.fixed[kClasses]);
  add("traffic class", core::kBatchClass, sum.fixed[kClasses + 1]);
  add("prefix cache", "miss", sum.fixed[kCache]);
  add("prefix cache", "hit", sum.fixed[kCache + 1]);
  for (const auto& [route, latencies] : sum.routes) add("route", route, latencies);
  add_tenants(detail, sum.tenants, tenants);
  return detail;
}

void SegmentMeter::add_tenants(PoolDetail& detail, const std::map<std::uint32_t, Latencies>& tenants,
                               std::span<const std::string> names) {
  const auto requests = [&](std::uint32_t tenant) {
    const Latencies& seen = tenants.at(tenant);
    return std::max(seen.ttft_ms.count(), seen.itl_ms.count());
  };
  std::vector<std::uint32_t> ranked;
  Latencies others;
  for (const auto& [tenant, latencies] : tenants) {
    if (tenant < names.size())
      ranked.push_back(tenant);
    else
      others.merge(latencies);
  }
  std::stable_sort(ranked.begin(), ranked.end(), [&](auto a, auto b) { return requests(a) > requests(b); });
  for (std::size_t rank = 0; rank < ranked.size(); ++rank) {
    const Latencies& from = tenants.at(ranked[rank]);
    if (rank < kTenantsShown)
      detail.segments.push_back(
          {"tenant", names[ranked[rank]], latency_window(from.ttft_ms), latency_window(from.itl_ms)});
    else
      others.merge(from);
  }
  if (others.ttft_ms.count() + others.itl_ms.count() > 0)
    detail.segments.push_back({"tenant", "all others", latency_window(others.ttft_ms), latency_window(others.itl_ms)});
}

}  // namespace penstock::signals
