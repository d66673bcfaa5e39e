// When a hot prefix is worth a second replica: each request that waits for the one replica that holds it pays a little
// rent, and when the rent adds up to the price of computing it elsewhere, it is computed elsewhere.
#pragma once

#include <array>
#include <cstdint>

#include "core/time.h"

namespace penstock::routing {

// The rule of rent or buy: at most twice the cost of knowing the future. A fixed table; a prefix whose place another one
// with more rent has taken is not counted. Rent halves in kHalfLife, so that only a lasting queue moves a prefix.
class PrefixReplication {
 public:
  static constexpr std::size_t kPlaces = 4096;
  static constexpr core::Duration kHalfLife = std::chrono::seconds{60};

  [[nodiscard]] double rent_ms(std::uint64_t key, core::Instant now) const;
  void pay(std::uint64_t key, double rent_ms, core::Instant now);
  void bought(std::uint64_t key);  // the count begins anew

 private:
  struct Place {
    std::uint64_t key = 0;
    double rent_ms = 0.0;
    core::Instant at{};
  };
  [[nodiscard]] static std::size_t place_of(std::uint64_t key) {
    return static_cast<std::size_t>((key * 0x9e3779b97f4a7c15ULL) >> 52);
  }
  [[nodiscard]] static double left(const Place& place, core::Instant now);

  std::array<Place, kPlaces> places_{};
};

}  // namespace penstock::routing
