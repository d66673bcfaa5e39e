// Seeded random streams with a fixed algorithm, so that the same seed gives the same bytes on every platform; the
// distributions of the standard library do not guarantee that.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace penstock::core {

// xoshiro256** (Blackman and Vigna, https://prng.di.unimi.it). A stream is a value: copy it to replay it.
class RandomStream {
 public:
  explicit RandomStream(std::uint64_t seed);

  // Returns an independent stream for one purpose. Draws from one stream do not affect another.
  [[nodiscard]] RandomStream fork(std::string_view purpose) const;
  [[nodiscard]] RandomStream fork(std::uint64_t index) const;

  [[nodiscard]] std::uint64_t next();
  [[nodiscard]] double uniform();                                // [0, 1)
  [[nodiscard]] double uniform(double low, double high);         // [low, high)
  [[nodiscard]] std::uint64_t below(std::uint64_t bound);        // [0, bound), bound > 0
  [[nodiscard]] double exponential(double mean);                 // mean > 0
  [[nodiscard]] double normal();                                 // mean 0, standard deviation 1
  [[nodiscard]] double log_normal(double median, double sigma);  // sigma of the underlying normal
  [[nodiscard]] double gamma(double shape, double scale);        // shape > 0, scale > 0; mean shape·scale

 private:
  std::array<std::uint64_t, 4> state_{};
  std::uint64_t seed_ = 0;
};

// SplitMix64's finaliser, a 64-bit hash of a 64-bit value.
[[nodiscard]] std::uint64_t mix64(std::uint64_t value);

}  // namespace penstock::core
