// Decides when a hot prefix is replicated to a second replica.
#pragma once

#include <array>
#include <cstdint>

#include "core/time.h"

namespace penstock::routing {

// Ski-rental rule: each request that waits for the only holder of a prefix adds its extra wait as rent; when the rent
// reaches the cost of computing the prefix on another replica, it is computed there. The cost is at most twice that of
// the optimal offline decision. The table has a fixed size; a prefix that collides with one that has more rent is not
// counted. Rent halves every kHalfLife, so that only persistent queues replicate a prefix.
class PrefixReplication {
 public:
  static constexpr std::size_t kEntries = 4096;
  static constexpr core::Duration kHalfLife = std::chrono::seconds{60};

  [[nodiscard]] double rent_ms(std::uint64_t key, core::Instant now) const;
  void pay(std::uint64_t key, double rent_ms, core::Instant now);
  void reset(std::uint64_t key);  // Resets the rent of the prefix.

 private:
  struct Entry {
    std::uint64_t key = 0;
    double rent_ms = 0.0;
    core::Instant at{};
  };
  [[nodiscard]] static std::size_t entry_of(std::uint64_t key) {
    return static_cast<std::size_t>((key * 0x9e3779b97f4a7c15ULL) >> 52);
  }
  [[nodiscard]] static double left(const Entry& entry, core::Instant now);

  std::array<Entry, kEntries> entries_{};
};

}  // namespace penstock::routing
