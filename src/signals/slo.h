// What latencies a request is promised: the general target, and those of segments that have one of their own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/time.h"

namespace penstock::signals {

struct SloTarget {
  core::Duration ttft = std::chrono::seconds{2};       // per request
  core::Duration itl = std::chrono::milliseconds{50};  // per request: mean gap between its tokens
};

// Selectors that are empty match anything; all that are given must match.
struct SegmentSlo {
  std::string name;
  std::string model, traffic_class, tenant;               // class: "interactive" or "batch"
  std::uint32_t prompt_min = 0, prompt_max = UINT32_MAX;  // tokens, both included
  SloTarget target;
  double goal = 0.99;  // share of its requests that are to keep the target
};

struct SloPolicy {
  SloTarget target;  // of the requests in no segment
  double goal = 0.99;
  std::vector<SegmentSlo> segments;  // the first that matches counts; at most kSegmentsMax

  // The target, or goal, at an index that `target_index` gave.
  [[nodiscard]] const SloTarget& target_at(std::size_t index) const {
    return index == 0 ? target : segments[index - 1].target;
  }
  [[nodiscard]] double goal_at(std::size_t index) const { return index == 0 ? goal : segments[index - 1].goal; }
};

inline constexpr std::size_t kSegmentsMax = 64;
inline constexpr std::string_view kGeneralTarget = "general";  // what reports call the target of no segment

// What a request is chosen by.
struct SloTraits {
  std::string_view model;  // empty: the one that there is, whatever its name
  std::string_view traffic_class, tenant;
  std::uint32_t prompt_tokens = 0;
};

// 0 is the general target, i + 1 the one of segments[i]. Costs a comparison or so for each segment before the one.
[[nodiscard]] std::uint8_t target_index(std::span<const SegmentSlo> segments, const SloTraits& request);

// The same targets, each for the tenant of the segment's name and nothing else: for requests of which only the target is
// known, such as RecentRequest.
[[nodiscard]] std::vector<SegmentSlo> segments_by_name(std::span<const SegmentSlo> segments);

}  // namespace penstock::signals
