// A histogram with fixed bounds, as Prometheus has them: what an engine counts into, and what a scrape of it reads back.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace penstock::telemetry {

struct Histogram {
  std::vector<double> bounds;         // upper, ascending and finite
  std::vector<std::uint64_t> counts;  // of each alone, not of all below; one more: those above the last bound
  double sum = 0.0;

  Histogram() = default;
  explicit Histogram(std::span<const double> upper_bounds)
      : bounds(upper_bounds.begin(), upper_bounds.end()), counts(upper_bounds.size() + 1) {}

  void add(double value, std::uint64_t times = 1);  // O(log bounds); value is finite; counts has its size
  [[nodiscard]] std::uint64_t count() const;
  // As Prometheus' histogram_quantile: straight lines between bounds, from 0 to the first one (that is, values are not
  // negative); above the last bound, that bound. 0 when empty.
  [[nodiscard]] double quantile(double quantile) const;
};

// What was counted between two readings. None if the bounds differ or a count went back: then they are not of the same
// process, and the later one is all there is.
[[nodiscard]] std::optional<Histogram> difference(const Histogram& before, const Histogram& after);
// Adds the counts of a histogram with the same bounds; an empty one takes it as it is. False if the bounds differ.
bool add_counts(Histogram& to, const Histogram& from);

// Bounds for engines: those of vLLM, with the SLO's usual limits (50 ms, 2 s) as bounds of their own.
[[nodiscard]] std::span<const double> ttft_bounds_s();
[[nodiscard]] std::span<const double> itl_bounds_s();
[[nodiscard]] std::span<const double> request_bounds_s();  // whole requests, and their parts
[[nodiscard]] std::span<const double> iteration_token_bounds();

}  // namespace penstock::telemetry
