// One criterion's problem: take one choice from each group so that the scores sum to the most and no resource runs out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace penstock::planner::global {

// Scores and uses of resources are whole numbers below 2^53, so that sums in doubles are exact. Columns from
// `resources` on are checks: sums that are implied by the resources, may be fractions, and only rule choices out.
struct Stage {
  std::size_t resources = 0;
  std::size_t columns = 0;           // resources and checks
  std::vector<double> limits;        // by column
  std::vector<std::uint32_t> begin;  // of each group's choices, and the end of the last
  std::vector<double> score;         // by choice
  std::vector<double> use;           // by choice and column
  std::vector<std::uint32_t> id;     // by choice: what the owner calls it

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

// A choice of the stage for each group, and what they come to.
struct Selection {
  std::vector<std::uint32_t> choices;
  double score = 0.0;
  std::vector<double> used;  // by resource

  [[nodiscard]] bool fits(const Stage& stage) const;
};
[[nodiscard]] Selection total_of(const Stage& stage, std::vector<std::uint32_t> choices);

// Sums of doubles that are no whole numbers may be off by this much; scores differ by 1 at least.
inline constexpr double kRounding = 0.25;

// Without the choices that another one of their group matches in score with no more of any resource.
[[nodiscard]] Stage undominated(const Stage& stage);
// Without those either that no selection within the limits holds. May leave a group empty: then nothing fits.
[[nodiscard]] Stage reduced(const Stage& stage);
// Without the choices that cannot be part of a selection that scores `at_least`, by the bound at these prices.
[[nodiscard]] Stage reduced(const Stage& stage, std::span<const double> prices, double at_least);

}  // namespace penstock::planner::global
