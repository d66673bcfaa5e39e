#include "core/random.h"

#include <bit>
#include <cmath>
#include <numbers>

#include "core/result.h"

namespace penstock::core {

std::uint64_t mix64(std::uint64_t value) {
  value += 0x9e3779b97f4a7c15ULL;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9ULL;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebULL;
  return value ^ (value >> 31);
}

RandomStream::RandomStream(std::uint64_t seed) : seed_(seed) {
  for (auto& word : state_) {
    word = mix64(seed);
    seed += 0x9e3779b97f4a7c15ULL;
  }
}

RandomStream RandomStream::fork(std::string_view purpose) const {
  std::uint64_t hash = 0xcbf29ce484222325ULL;  // FNV-1a.
  for (const char letter : purpose) hash = (hash ^ static_cast<unsigned char>(letter)) * 0x100000001b3ULL;
  return RandomStream{mix64(seed_ ^ hash)};
}

RandomStream RandomStream::fork(std::uint64_t index) const { return RandomStream{mix64(seed_ + mix64(index + 1))}; }

std::uint64_t RandomStream::next() {
  const std::uint64_t result = std::rotl(state_[1] * 5, 7) * 9;
  const std::uint64_t shifted = state_[1] << 17;
  state_[2] ^= state_[0];
  state_[3] ^= state_[1];
  state_[1] ^= state_[2];
  state_[0] ^= state_[3];
  state_[2] ^= shifted;
  state_[3] = std::rotl(state_[3], 45);
  return result;
}

double RandomStream::uniform() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }

double RandomStream::uniform(double low, double high) { return low + (high - low) * uniform(); }

std::uint64_t RandomStream::below(std::uint64_t bound) {
  PENSTOCK_ASSERT(bound > 0, "a draw needs at least one outcome");
  // Rejection avoids a bias; a repetition has the probability bound / 2^64.
  const std::uint64_t limit = -bound % bound;
  for (;;) {
    const std::uint64_t value = next();
    if (value >= limit) return value % bound;
  }
}

double RandomStream::exponential(double mean) { return -mean * std::log1p(-uniform()); }

double RandomStream::normal() {
  // Box-Muller without caching the second value, so that the stream has no further state.
  const double radius = std::sqrt(-2.0 * std::log1p(-uniform()));
  return radius * std::cos(2.0 * std::numbers::pi * uniform());
}

double RandomStream::log_normal(double median, double sigma) { return median * std::exp(sigma * normal()); }

double RandomStream::gamma(double shape, double scale) {
  // Marsaglia and Tsang 2000; a shape below 1 is increased by one and scaled back.
  if (shape < 1.0) {
    const double lift = std::pow(1.0 - uniform(), 1.0 / shape);
    return gamma(shape + 1.0, scale) * lift;
  }
  const double d = shape - 1.0 / 3.0;
  const double c = 1.0 / std::sqrt(9.0 * d);
  for (;;) {
    const double x = normal();
    const double v = std::pow(1.0 + c * x, 3.0);
    if (v <= 0.0) continue;
    const double u = 1.0 - uniform();
    if (std::log(u) < 0.5 * x * x + d - d * v + d * std::log(v)) return d * v * scale;
  }
}

}  // namespace penstock::core
