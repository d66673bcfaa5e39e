// Where each session was last served.
#pragma once

#include <cstdint>
#include <vector>

#include "core/time.h"
#include "routing/recent_keys.h"

namespace penstock::routing {

// The sessions used least recently go first when there are too many. Not thread-safe.
class Sessions {
 public:
  static constexpr std::uint32_t kNone = RecentKeys::kNone;

  Sessions(std::uint32_t most, core::Duration kept) : most_(most), kept_(kept) {}

  [[nodiscard]] std::uint32_t find(std::uint64_t session, core::Instant now) const;  // slot, or kNone
  void remember(std::uint64_t session, std::uint32_t slot, core::Instant now);
  void forget(std::uint32_t slot);  // O(1): what still points to it is seen to be outdated

 private:
  struct Place {
    std::uint32_t slot = 0;
    std::uint32_t use_of_slot = 0;  // how often the slot had been forgotten
    core::Instant at{};
  };
  [[nodiscard]] std::uint32_t uses(std::uint32_t slot) const { return slot < uses_.size() ? uses_[slot] : 0; }

  std::uint32_t most_;
  core::Duration kept_;
  RecentKeys keys_;
  std::vector<Place> places_;  // by node
  std::vector<std::uint32_t> uses_;
};

}  // namespace penstock::routing
