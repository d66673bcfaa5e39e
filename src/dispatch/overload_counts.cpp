#include "dispatch/overload_counts.h"

#include <algorithm>
#include <cstddef>

namespace penstock::dispatch {

using admission::Decision;
using admission::OverloadAction;

void SegmentCounts::add(std::uint32_t tenant, admission::Class traffic_class, OverloadAction action) {
  const std::size_t segment = std::size_t{2} * tenant + index_of(traffic_class);
  if (counts_.size() <= segment) counts_.resize(segment + 1);
  ++counts_[segment][static_cast<std::size_t>(action)];
}

void SegmentCounts::add(std::uint32_t tenant, admission::Class traffic_class, const admission::Answer& answer) {
  // A request that waits for a limit of its own would wait without overload, too.
  if (answer.decision == Decision::kQueue && !answer.own_limit) add(tenant, traffic_class, OverloadAction::kQueue);
  if (answer.decision == Decision::kRefusePressure) add(tenant, traffic_class, OverloadAction::kShed);
  if (answer.decision == Decision::kRefuseDropped) add(tenant, traffic_class, OverloadAction::kDrop);
}

SegmentCounts& SegmentCounts::operator+=(const SegmentCounts& other) {
  counts_.resize(std::max(counts_.size(), other.counts_.size()));
  for (std::size_t i = 0; i < other.counts_.size(); ++i)
    for (std::size_t action = 0; action < counts_[i].size(); ++action) counts_[i][action] += other.counts_[i][action];
  return *this;
}

std::vector<SegmentOverload> SegmentCounts::list(const std::vector<Tenant>& tenants) const {
  std::vector<SegmentOverload> segments;
  for (std::size_t i = 0; i < counts_.size(); ++i)
    if (counts_[i] != OverloadCounts{})
      segments.push_back({tenants[i / 2].name, static_cast<admission::Class>(i % 2), counts_[i]});
  return segments;
}

}  // namespace penstock::dispatch
