// A fluid model of a pool: the token load of a workload by window, and the share of requests that misses the SLO at a
// load per replica. It predicts in microseconds what a simulation of the whole trace takes seconds for.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "core/time.h"
#include "signals/observation.h"
#include "simulation/schedule.h"
#include "workload/request.h"

namespace penstock::simulation {

inline constexpr std::size_t kSlicesPerWindow = 6;  // The peak of a window is that of its slices.

// Tokens per second by slice. An answer is generated at a constant rate from the arrival of its request on.
struct TokenLoad {
  core::Duration window{};
  std::vector<double> requests;        // That arrive in each window.
  std::vector<double> prompt, output;  // By slice.
};

// `itl` is the time between two tokens of an answer. Takes O(requests + windows).
[[nodiscard]] TokenLoad token_load(const workload::Workload& workload, core::Duration window, std::size_t windows,
                                   core::Duration itl);

// What a simulation measured in one window.
struct LoadSample {
  std::size_t window = 0;
  double replicas = 0.0;  // Ready, on average.
  double missed = 0.0;    // Share of the requests that arrived in the window.
};

class LoadCurve {
 public:
  // Fits the weight of an output token in prompt tokens, the weight of the peak of a window against its mean, and the
  // curve (isotonic regression). A prefill pool has the load of the prompts only, a decode pool that of the answers.
  [[nodiscard]] static LoadCurve fit(const TokenLoad& load, signals::Role role, std::span<const LoadSample> samples);

  // Fits the curve again, with the same weights and the corrections so far.
  void refit(std::span<const LoadSample> samples);
  // Moves the load of the window toward the one that explains the sample.
  void correct(const LoadSample& sample);

  [[nodiscard]] double missed(std::size_t window, double replicas) const;  // Share of its requests.
  // The load relative to the largest one with hardly any misses.
  [[nodiscard]] double utilisation(std::size_t window, double replicas) const;
  // Predictions for fleets of `smallest` to at most `largest`. Sizes above `needed` that save no miss are left out.
  [[nodiscard]] MissTable table(std::uint32_t smallest, std::uint32_t largest, std::uint32_t needed = 0) const;
  // The smallest fixed fleet whose predicted misses are at most `allowed`; `largest` if none.
  [[nodiscard]] std::uint32_t fixed_size(std::uint32_t smallest, std::uint32_t largest, double allowed) const;

  [[nodiscard]] double output_weight() const { return output_weight_; }

 private:
  struct Knot {
    double load = 0.0;  // Per replica.
    double missed = 0.0;
  };
  [[nodiscard]] double missed_at(double load) const;
  [[nodiscard]] double load_at(double missed) const;  // The largest load with at most this share.
  // Returns the sum of squared errors, weighted with the requests.
  double fit_knots(std::span<const LoadSample> samples);
  void set_weights(const TokenLoad& load, signals::Role role, double output_weight, double peak_weight);

  core::Duration window_{};
  std::vector<double> requests_, load_;  // By window.
  std::vector<double> scale_, extra_;    // Corrections: of the load, and misses that no replica avoids.
  std::vector<Knot> knots_;
  double output_weight_ = 1.0;
};

}  // namespace penstock::simulation
