// Numbers of requests on which overload policies acted, by segment.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "admission/admission_controller.h"
#include "admission/overload.h"
#include "dispatch/options.h"

namespace penstock::dispatch {

// By OverloadAction: requests that waited for a replica, and those that the policy of their segment shortened, dropped
// or shed.
using OverloadCounts = std::array<std::uint64_t, admission::kOverloadActions>;

struct SegmentOverload {
  std::string tenant;
  admission::Class traffic_class = admission::Class::kInteractive;
  OverloadCounts counts{};
};

class SegmentCounts {
 public:
  void add(std::uint32_t tenant, admission::Class traffic_class, admission::OverloadAction action);
  // The action that the decision carries out, if it is one.
  void add(std::uint32_t tenant, admission::Class traffic_class, const admission::Answer& answer);
  SegmentCounts& operator+=(const SegmentCounts& other);
  // The segments that have any, in the order of tenants.
  [[nodiscard]] std::vector<SegmentOverload> list(const std::vector<Tenant>& tenants) const;

 private:
  std::vector<OverloadCounts> counts_;  // 2 x tenant + class.
};

}  // namespace penstock::dispatch
