// The search for the settings of a policy that lead to given attainments, with few runs.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"
#include "evaluation/equal_attainment.h"

namespace penstock::evaluation {

enum class AxisKind : std::uint8_t {
  kLoad,      // A share of capacity or of a limit: a smaller value keeps more.
  kShare,     // A share of requests: a larger value keeps more.
  kCount,     // Replicas: a larger value keeps more.
  kHeadroom,  // A share beyond what is needed, above -1: a larger value keeps more.
};

struct Axis {
  AxisKind kind = AxisKind::kLoad;
  double least = 0.1, most = 2.0;  // Least < most; above 0, but for headroom; a share of requests is below 1.
};

// From 0 for the setting that keeps least to 1 for the one that keeps most, on a logarithmic scale.
[[nodiscard]] double generosity(const Axis& axis, double setting);
// The setting with this generosity, with two significant digits; a count is whole.
[[nodiscard]] double setting_at(const Axis& axis, double generosity);

struct SweepPlan {
  std::vector<double> first;   // Settings that are run in any case.
  std::vector<double> wanted;  // Attainments, the most important one first.
  std::uint32_t runs_max = 8;  // With those of `first`.
  double close_enough = 0.04;  // Relative difference of the GPU-hours of two neighbours around an attainment.
};

// Runs settings until each wanted attainment lies between two neighbours whose GPU-hours are close, or no setting
// reaches it, or `runs_max` is reached. `run` is called at most once for a setting. Errors: those of `run`.
[[nodiscard]] core::Result<void> sweep(const Axis& axis, const SweepPlan& plan,
                                       const std::function<core::Result<Point>(double setting)>& run);

}  // namespace penstock::evaluation
