#include "signals/slo.h"

#include <algorithm>

#include "core/traffic_class.h"

namespace penstock::signals {
namespace {

bool fits(const std::string& selector, std::string_view value) { return selector.empty() || selector == value; }

}  // namespace

bool RequestSelector::matches(const SloTraits& request) const {
  return request.prompt_tokens >= prompt_min && request.prompt_tokens <= prompt_max &&
         fits(traffic_class, request.traffic_class) && fits(tenant, request.tenant) &&
         (request.model.empty() || fits(model, request.model));
}

SloTarget strictest_target(const SloPolicy& slo, std::string_view traffic_class) {
  SloTarget strictest = slo.target;
  for (const SegmentSlo& segment : slo.segments) {
    if (!fits(segment.traffic_class, traffic_class)) continue;
    strictest.ttft = std::min(strictest.ttft, segment.target.ttft);
    strictest.itl = std::min(strictest.itl, segment.target.itl);
  }
  return strictest;
}

void add_deferred_segment(std::vector<SegmentSlo>& segments, double goal, core::Duration window) {
  if (window <= core::Duration{} || segments.size() >= kSegmentsMax) return;
  const bool has_one = std::any_of(segments.begin(), segments.end(), [](const SegmentSlo& segment) {
    return segment.traffic_class == core::kBatchClass && segment.model.empty() && segment.tenant.empty() &&
           segment.prompt_min == 0 && segment.prompt_max == UINT32_MAX;
  });
  if (has_one) return;
  SegmentSlo batch;
  batch.name = core::kBatchClass;
  for (int number = 2; std::any_of(segments.begin(), segments.end(),
                                   [&](const SegmentSlo& segment) { return segment.name == batch.name; });
       ++number)
    batch.name = std::string{core::kBatchClass} + "-" + std::to_string(number);
  batch.traffic_class = core::kBatchClass;
  batch.target = {window, window, window};
  batch.goal = goal;
  segments.push_back(std::move(batch));
}

std::uint8_t target_index(std::span<const SegmentSlo> segments, const SloTraits& request) {
  const std::uint32_t segment = first_match(segments, request);
  return segment == segments.size() ? 0 : static_cast<std::uint8_t>(segment + 1);
}

std::vector<SegmentSlo> segments_by_name(std::span<const SegmentSlo> segments) {
  std::vector<SegmentSlo> named;
  for (const SegmentSlo& segment : segments) {
    SegmentSlo by_name;
    by_name.name = by_name.tenant = segment.name;
    by_name.target = segment.target;
    by_name.goal = segment.goal;
    named.push_back(std::move(by_name));
  }
  return named;
}

}  // namespace penstock::signals
