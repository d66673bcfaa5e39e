// What happens to the requests of a segment while the replicas are full, and which segment gives way to which. A
// segment is a traffic class, or the requests of one tenant in it.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "admission/queue.h"
#include "core/time.h"

namespace penstock::admission {

enum class OverloadAction : std::uint8_t {
  kQueue,    // A request waits for the queue time of its class and is then refused.
  kDegrade,  // As kQueue. While too many tokens wait, max_tokens is lowered to DegradeLimits::max_tokens.
  kDrop,     // As kQueue. It is refused while it gives way to a segment with precedence; see kGiveWay.
  kShed,     // A request never waits: it is admitted or refused at its arrival.
};
inline constexpr std::size_t kOverloadActions = 4;
[[nodiscard]] const char* to_string(OverloadAction action);  // Returns "queue", "degrade", "drop" or "shed".

// The action that applies: the tenant's, else that of the class. Requests of a class without a queue time never wait.
[[nodiscard]] OverloadAction action_of(std::optional<OverloadAction> of_tenant, OverloadAction of_class,
                                       core::Duration queue_time);

// Requests that shed or drop leave a part of each replica to the segments before them: see with_headroom(). Nothing
// has precedence over the class interactive as a whole.
[[nodiscard]] constexpr bool leaves_headroom(OverloadAction action, Class traffic_class) {
  return traffic_class == Class::kBatch && (action == OverloadAction::kShed || action == OverloadAction::kDrop);
}

// Interactive requests have precedence over batch requests, and within a class higher tiers over lower ones.
struct Precedence {
  Class traffic_class = Class::kInteractive;
  std::int32_t tier = 0;
  // The greater one is served first and gives way last.
  [[nodiscard]] constexpr std::strong_ordering operator<=>(const Precedence& other) const {
    if (traffic_class != other.traffic_class) return other.traffic_class <=> traffic_class;
    return tier <=> other.tier;
  }
  [[nodiscard]] constexpr bool operator==(const Precedence&) const = default;
};

[[nodiscard]] inline Precedence precedence_of(const Waiting& waiting) { return {line_of(waiting), waiting.tier}; }

// How long segments that shed or drop give way after the last time at which no replica had room for a request with
// precedence. What replicas have of these segments ends meanwhile, so that the next burst finds room.
inline constexpr core::Duration kGiveWay = std::chrono::seconds{2};

struct DegradeLimits {
  // Waiting tokens above which max_tokens is lowered. Those of the class and of the classes before it count, so that
  // with equal limits no class degrades after one with precedence.
  std::uint64_t above_waiting_tokens = 131'072;
  std::uint32_t max_tokens = 512;
};

// Returns the lowered max_tokens, or nothing if it stays unchanged.
[[nodiscard]] std::optional<std::uint32_t> degraded_max_tokens(std::optional<std::uint32_t> max_tokens,
                                                               std::uint64_t waiting_tokens,
                                                               const DegradeLimits& limits);

}  // namespace penstock::admission
