// Remembers the replica that last served each session.
#pragma once

#include <cstdint>
#include <vector>

#include "core/time.h"
#include "routing/recent_keys.h"

namespace penstock::routing {

// The least recently used sessions are evicted first. Not thread-safe.
class Sessions {
 public:
  static constexpr std::uint32_t kNone = RecentKeys::kNone;

  Sessions(std::uint32_t most, core::Duration kept) : most_(most), kept_(kept) {}

  // Returns the slot, or kNone.
  [[nodiscard]] std::uint32_t find(std::uint64_t session, core::Instant now) const;
  void remember(std::uint64_t session, std::uint32_t slot, core::Instant now);
  // Cost: O(1). Entries of the slot are recognised as outdated when they are read.
  void forget(std::uint32_t slot);

 private:
  struct Location {
    std::uint32_t slot = 0;
    std::uint32_t slot_generation = 0;  // Value of generation(slot) when the entry was written.
    core::Instant at{};
  };
  [[nodiscard]] std::uint32_t generation(std::uint32_t slot) const {
    return slot < generations_.size() ? generations_[slot] : 0;
  }

  std::uint32_t most_;
  core::Duration kept_;
  RecentKeys keys_;
  std::vector<Location> locations_;  // Indexed by node.
  std::vector<std::uint32_t> generations_;
};

}  // namespace penstock::routing
