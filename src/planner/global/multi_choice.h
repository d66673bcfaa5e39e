// One choice for each group under several resources, one criterion after the other: the multiple-choice knapsack
// problem with lexicographic objectives (Kellerer, Pferschy, Pisinger: Knapsack Problems, 2004, chapters 10 and 11).
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
  double bound = 0.0;          // no selection that keeps what was pinned before scores more; = score when proven
  std::vector<double> prices;  // score for one unit more of each of the caller's resources
};

enum class Restriction : std::uint8_t { kKept, kImpossible, kUnknown };

// Groups and choices are numbered as they are added. The first choice of each group must use no more of any resource
// than its others, and all first choices together must fit.
class MultiChoice {
 public:
  MultiChoice(std::vector<double> limits, std::size_t criteria, const SearchLimits& search);

  void add_group();
  // Of the group added last. Whole numbers below 2^53 in sum: a score for each criterion, a use for each resource.
  void add_choice(std::span<const double> scores, std::span<const double> uses);

  [[nodiscard]] bool first_choices_fit() const;

  // Maximises the sum of a criterion, then pins it: later calls keep at least what this one reached. A pinned criterion
  // becomes two columns: what is lost against the best of each group, a resource of which as much may be used as was
  // lost here; and its bound at the shadow prices, a check.
  Maximum maximise(std::size_t criterion);

  // Only the choices c with allowed[c] from now on. Changes nothing unless it returns kKept; kUnknown: the search ended
  // at its limits.
  Restriction restrict_to(const std::vector<bool>& allowed);

  // The choice for each group, counted within the group.
  [[nodiscard]] std::vector<std::uint32_t> selection() const;

 private:
  struct Column {
    std::vector<double> use;  // by choice
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
  SearchLimits search_;            // work_max: what is left of it
  std::vector<Column> resources_;  // the caller's, then the losses of pinned criteria
  std::vector<Column> checks_;
  std::vector<double> scores_;                      // by choice and criterion
  std::vector<std::uint32_t> begin_{0};             // of each group's choices
  std::vector<std::vector<std::uint32_t>> active_;  // by group, ascending
  std::vector<std::uint32_t> selected_;             // by group: a choice
};

}  // namespace penstock::planner::global
