// The multiple-choice knapsack problem with several resources and lexicographic objectives (Kellerer, Pferschy,
// Pisinger: Knapsack Problems, 2004, chapters 10 and 11): one choice for each group, one criterion after the other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "planner/global/lagrange.h"
#include "planner/global/search.h"
#include "planner/global/stage.h"

namespace penstock::planner::global {

struct Maximum {
  double score = 0.0;
  double bound = 0.0;          // No selection that keeps the pinned values scores more; equals the score if proven.
  std::vector<double> prices;  // Score of one unit more of each of the caller's resources.
};

enum class Restriction : std::uint8_t { kKept, kImpossible, kUnknown };

// Groups and choices are numbered in the order in which they are added. The first choice of each group must use no more
// of any resource than its others, and all first choices together must fit.
class MultiChoice {
 public:
  MultiChoice(std::vector<double> limits, std::size_t criteria, const SearchLimits& search);

  void add_group();
  // Adds a choice to the last group: a score for each criterion and a use of each resource, whole numbers whose sums
  // stay below 2^53.
  void add_choice(std::span<const double> scores, std::span<const double> uses);

  [[nodiscard]] bool first_choices_fit() const;

  // Maximises the sum of a criterion and pins it: later calls keep at least this value. A pinned criterion becomes two
  // columns: a resource for the loss against the best of each group, limited to the loss of this result, and a check
  // for its bound at the shadow prices.
  Maximum maximise(std::size_t criterion);

  // Allows only the choices c with allowed[c] from now on. Changes nothing unless it returns kKept. kUnknown means that
  // the search ended at its limits.
  Restriction restrict_to(const std::vector<bool>& allowed);

  // The choice of each group, numbered within the group.
  [[nodiscard]] std::vector<std::uint32_t> selection() const;

 private:
  struct Column {
    std::vector<double> use;  // Indexed by choice.
    double limit = 0.0;
  };
  [[nodiscard]] Stage stage_of(std::span<const double> scores_by_choice) const;
  [[nodiscard]] std::vector<double> scores_of(std::size_t criterion) const;
  [[nodiscard]] Selection current_in(const Stage& stage) const;
  void adopt(const Stage& stage, const Selection& selection);
  void shrink_to(const Stage& stage);
  SearchResult search_within(const Stage& stage, std::span<const double> prices, double above, std::size_t states_max);
  void pin(std::span<const double> scores, double reached, std::span<const double> prices);

  std::size_t own_resources_;
  std::size_t criteria_;
  SearchLimits search_;            // work_max is the remaining work.
  std::vector<Column> resources_;  // The caller's resources, then the losses of pinned criteria.
  std::vector<Column> checks_;
  std::vector<double> scores_;                      // By choice and criterion.
  std::vector<std::uint32_t> begin_{0};             // Index of each group's first choice.
  std::vector<std::vector<std::uint32_t>> active_;  // By group, ascending.
  std::vector<std::uint32_t> selected_;             // The selected choice of each group.
};

}  // namespace penstock::planner::global
