// The latency objectives of requests: the general one, and those of segments.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/time.h"

namespace penstock::signals {

struct SloTarget {
  core::Duration ttft = std::chrono::seconds{2};       // per request
  core::Duration itl = std::chrono::milliseconds{50};  // Per request: mean gap between its tokens.
  // Per request: from arrival to end. The only objective of answers that are not streamed.
  std::optional<core::Duration> e2e{};
};

// The properties that select the segment or the pool of a request.
struct SloTraits {
  std::string_view model;  // Empty for the only model.
  std::string_view traffic_class, tenant;
  std::uint32_t prompt_tokens = 0;
};

// An empty selector matches everything; all others must match.
struct RequestSelector {
  std::string model, traffic_class, tenant;               // The class is "interactive" or "batch".
  std::uint32_t prompt_min = 0, prompt_max = UINT32_MAX;  // Tokens, both included.

  [[nodiscard]] bool matches(const SloTraits& request) const;
};

// Index of the first selector that matches; their number if none does. One comparison per selector before the match.
template <class Selectors>
[[nodiscard]] std::uint32_t first_match(const Selectors& selectors, const SloTraits& request) {
  std::uint32_t index = 0;
  for (const RequestSelector& each : selectors) {
    if (each.matches(request)) break;
    ++index;
  }
  return index;
}

struct SegmentSlo : RequestSelector {
  std::string name;
  SloTarget target;
  double goal = 0.99;  // Share of its requests that should meet the target.
};

struct SloPolicy {
  SloTarget target;  // Of the requests in no segment.
  double goal = 0.99;
  std::vector<SegmentSlo> segments;  // The first match counts; at most kSegmentsMax.

  // The target, or goal, at an index that `target_index` gave.
  [[nodiscard]] const SloTarget& target_at(std::size_t index) const {
    return index == 0 ? target : segments[index - 1].target;
  }
  [[nodiscard]] double goal_at(std::size_t index) const { return index == 0 ? goal : segments[index - 1].goal; }
};

inline constexpr std::size_t kSegmentsMax = 64;
inline constexpr std::string_view kGeneralTarget = "general";  // Name of the general target in reports.

// The shortest TTFT and ITL that some requests of the class have as their objective.
[[nodiscard]] SloTarget strictest_target(const SloPolicy& slo, std::string_view traffic_class);

// Adds a segment for requests of the class batch that match no other one: with deferral, they have until `window` after
// their arrival for their first token and their end, and any ITL. Does nothing if `window` is 0.
void add_deferred_segment(std::vector<SegmentSlo>& segments, double goal, core::Duration window);

// Returns 0 for the general target and i + 1 for segments[i]. Costs about one comparison per segment before the match.
[[nodiscard]] std::uint8_t target_index(std::span<const SegmentSlo> segments, const SloTraits& request);

// The same targets, each selected by a tenant with the name of the segment: for requests of which only the target is
// known, such as RecentRequest.
[[nodiscard]] std::vector<SegmentSlo> segments_by_name(std::span<const SegmentSlo> segments);

}  // namespace penstock::signals
