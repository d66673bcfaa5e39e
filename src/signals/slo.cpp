#include "signals/slo.h"

namespace penstock::signals {
namespace {

bool fits(const std::string& selector, std::string_view value) { return selector.empty() || selector == value; }

bool matches(const SegmentSlo& segment, const SloTraits& request) {
  return request.prompt_tokens >= segment.prompt_min && request.prompt_tokens <= segment.prompt_max &&
         fits(segment.traffic_class, request.traffic_class) && fits(segment.tenant, request.tenant) &&
         (request.model.empty() || fits(segment.model, request.model));
}

}  // namespace

std::uint8_t target_index(std::span<const SegmentSlo> segments, const SloTraits& request) {
  for (std::size_t i = 0; i < segments.size(); ++i)
    if (matches(segments[i], request)) return static_cast<std::uint8_t>(i + 1);
  return 0;
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
