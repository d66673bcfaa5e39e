// A histogram with fixed bounds, as in Prometheus: engines count into it, and scrapes are read into it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace penstock::telemetry {

struct Histogram {
  std::vector<double> bounds;         // Upper bounds, ascending and finite.
  std::vector<std::uint64_t> counts;  // Count of each bucket alone, not cumulative; the last one is above all bounds.
  double sum = 0.0;

  Histogram() = default;
  explicit Histogram(std::span<const double> upper_bounds)
      : bounds(upper_bounds.begin(), upper_bounds.end()), counts(upper_bounds.size() + 1) {}

  void add(double value,
           std::uint64_t times = 1);  // O(log bounds). `value` must be finite, and `counts` have its size.
  [[nodiscard]] std::uint64_t count() const;
  // Interpolates linearly between bounds, from 0 to the first one, as Prometheus' histogram_quantile does; above the
  // last bound, returns that bound. Values must not be negative. 0 if empty.
  [[nodiscard]] double quantile(double quantile) const;
};

// Returns the counts between two readings. Returns nothing if the bounds differ or a count decreased: the readings are
// then of different processes, and only the later one is valid.
[[nodiscard]] std::optional<Histogram> difference(const Histogram& before, const Histogram& after);
// Adds the counts of a histogram with the same bounds; an empty target becomes a copy. Returns false if the bounds
// differ.
bool add_counts(Histogram& to, const Histogram& from);

// Bounds for engines: those of vLLM, extended by the usual limits of an SLO (50 ms, 2 s).
[[nodiscard]] std::span<const double> ttft_bounds_s();
[[nodiscard]] std::span<const double> itl_bounds_s();
[[nodiscard]] std::span<const double> request_bounds_s();  // For whole requests and their parts.
[[nodiscard]] std::span<const double> iteration_token_bounds();
[[nodiscard]] std::span<const double> length_bounds();  // Tokens of a prompt or an answer.

}  // namespace penstock::telemetry
