#include "signals/slo.h"

namespace penstock::signals {
namespace {

bool fits(const std::string& selector, std::string_view value) { return selector.empty() || selector == value; }

}  // namespace

bool RequestSelector::matches(const SloTraits& request) const {
  return request.prompt_tokens >= prompt_min && request.prompt_tokens <= prompt_max &&
         fits(traffic_class, request.traffic_class) && fits(tenant, request.tenant) &&
         (request.model.empty() || fits(model, request.model));
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
