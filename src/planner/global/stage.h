// The problem of one criterion: one choice from each group with the highest sum of scores and no resource exceeded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace penstock::planner::global {

// Scores and uses of resources are whole numbers below 2^53, so that sums in doubles are exact. Columns from
// `resources` on are checks: sums that follow from the resources, may be fractions, and only exclude choices.
struct Stage {
  std::size_t resources = 0;
  std::size_t columns = 0;           // Resources and checks.
  std::vector<double> limits;        // By column.
  std::vector<std::uint32_t> begin;  // Index of each group's first choice, then the end of the last group.
  std::vector<double> score;         // By choice.
  std::vector<double> use;           // By choice and column.
  std::vector<std::uint32_t> id;     // By choice: the number that the owner uses.

  [[nodiscard]] std::size_t groups() const { return begin.size() - 1; }
  [[nodiscard]] std::span<const double> uses(std::uint32_t choice) const {
    return {use.data() + choice * columns, columns};
  }
  [[nodiscard]] double priced(std::uint32_t choice, std::span<const double> prices) const {
    double sum = 0.0;
    for (std::size_t r = 0; r < prices.size(); ++r) sum += prices[r] * use[choice * columns + r];
    return sum;
  }
};

// One choice of the stage for each group, with the resulting sums.
struct Selection {
  std::vector<std::uint32_t> choices;
  double score = 0.0;
  std::vector<double> used;  // By resource.

  [[nodiscard]] bool fits(const Stage& stage) const;
};
[[nodiscard]] Selection total_of(const Stage& stage, std::vector<std::uint32_t> choices);

// Tolerance of sums of fractions in doubles; scores differ by at least 1.
inline constexpr double kRounding = 0.25;

// Removes choices if another one of their group has at least the same score and uses no more of any resource.
[[nodiscard]] Stage undominated(const Stage& stage);
// Also removes choices that are in no selection within the limits. A group may become empty: then nothing fits.
[[nodiscard]] Stage reduced(const Stage& stage);
// Removes choices that cannot be part of a selection with score `at_least`, by the bound at these prices.
[[nodiscard]] Stage reduced(const Stage& stage, std::span<const double> prices, double at_least);

}  // namespace penstock::planner::global
