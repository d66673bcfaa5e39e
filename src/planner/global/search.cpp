#include "planner/global/search.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <vector>

namespace penstock::planner::global {
namespace {

constexpr std::size_t kDominatorsMax = 24;  // Number of earlier states that a state is compared with.
// Number of states of a depth that are completed greedily to find a better selection.
constexpr std::size_t kCompletionsMax = 4;
constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();

struct State {
  double score;
  double bound;  // Upper bound of all selections that begin with this state.
  std::uint32_t parent;
  std::uint32_t choice;
};

// The states of one depth; their uses are in one array, one row per state.
struct Layer {
  std::vector<State> states;
  std::vector<double> used;
  std::vector<std::size_t> runs;  // Begin of each run of states with the same choice.

  void clear() {
    states.clear();
    used.clear();
    runs.clear();
  }
};

struct Link {
  std::uint32_t parent, choice;
};

// Only the first two resources are ranked; more would cost more than they save.
struct Rank {
  double first, second, score;
  std::uint32_t row;

  bool operator<(const Rank& other) const {
    if (first != other.first) return first < other.first;
    if (second != other.second) return second < other.second;
    if (score != other.score) return score > other.score;
    return row < other.row;
  }
};

class Search {
 public:
  Search(const Stage& stage, std::span<const double> prices, double above, const SearchLimits& limits)
      : stage_(stage), above_(above), limits_(limits), dropped_(-std::numeric_limits<double>::infinity()) {
    value_choices(prices);
    order_groups();
    sum_up_the_rest();
  }

  SearchResult run() {
    Layer layer;
    layer.states.push_back({0.0, constant_ + rest_value_[0], kNone, kNone});
    layer.used.assign(stage_.columns, 0.0);
    Layer next;
    for (std::size_t depth = 0; depth < order_.size() && !layer.states.empty(); ++depth) {
      extend(layer, depth, next);
      thin(next, depth + 1, layer);
      std::vector<Link>& links = history_.emplace_back();
      links.reserve(layer.states.size());
      for (const State& state : layer.states) links.push_back({state.parent, state.choice});
      complete_the_best(layer, depth + 1);
    }
    const double best = better_ ? better_->score : above_;
    return {std::move(better_), std::max(best, dropped_), made_};
  }

 private:
  // The choices of a depth, the most valuable first.
  [[nodiscard]] std::span<const std::uint32_t> choices(std::size_t depth) const {
    const std::size_t group = order_[depth];
    return {ranked_.data() + stage_.begin[group], ranked_.data() + stage_.begin[group + 1]};
  }

  void value_choices(std::span<const double> prices) {
    value_.resize(stage_.score.size());
    for (std::uint32_t choice = 0; choice < value_.size(); ++choice)
      value_[choice] = stage_.score[choice] - stage_.priced(choice, prices);
    constant_ = 0.0;
    for (std::size_t r = 0; r < stage_.resources; ++r) constant_ += prices[r] * stage_.limits[r];
    ranked_.resize(value_.size());
    std::iota(ranked_.begin(), ranked_.end(), 0U);
    for (std::size_t group = 0; group < stage_.groups(); ++group)
      std::stable_sort(ranked_.begin() + stage_.begin[group], ranked_.begin() + stage_.begin[group + 1],
                       [&](std::uint32_t a, std::uint32_t b) { return value_[a] > value_[b]; });
  }

  // Groups whose second best choice loses most come first: their states are discarded early, those of near-equal
  // choices multiply late. This makes three to ten times fewer states than the order of the input, of the number of
  // choices, or of their spread.
  void order_groups() {
    order_.resize(stage_.groups());
    std::iota(order_.begin(), order_.end(), std::size_t{0});
    const auto regret = [&](std::size_t group) {
      const std::uint32_t* const best = ranked_.data() + stage_.begin[group];
      return stage_.begin[group + 1] - stage_.begin[group] < 2 ? std::numeric_limits<double>::infinity()
                                                               : value_[best[0]] - value_[best[1]];
    };
    std::stable_sort(order_.begin(), order_.end(), [&](std::size_t a, std::size_t b) { return regret(a) > regret(b); });
  }

  // The minimum use of every column, and the maximum score at the prices, of the groups from each depth on.
  void sum_up_the_rest() {
    rest_value_.assign(order_.size() + 1, 0.0);
    rest_use_.assign((order_.size() + 1) * stage_.columns, 0.0);
    for (std::size_t depth = order_.size(); depth-- > 0;) {
      rest_value_[depth] = rest_value_[depth + 1] + value_[choices(depth).front()];
      for (std::size_t c = 0; c < stage_.columns; ++c) {
        double least = std::numeric_limits<double>::infinity();
        for (const std::uint32_t choice : choices(depth))
          least = std::min(least, stage_.use[choice * stage_.columns + c]);
        rest_use_[depth * stage_.columns + c] = rest_use_[(depth + 1) * stage_.columns + c] + least;
      }
    }
  }

  [[nodiscard]] double slack(std::size_t column) const { return column < stage_.resources ? 0.0 : kRounding; }

  // Extends choice by choice, so that the states of each choice are in the order of their parents.
  void extend(const Layer& layer, std::size_t depth, Layer& next) const {
    next.clear();
    const double* const rest = rest_use_.data() + (depth + 1) * stage_.columns;
    // bound = constant + Σ value of the choices so far + rest: remove this depth's best value and add the choice's.
    const double change = rest_value_[depth + 1] - rest_value_[depth];
    for (const std::uint32_t choice : choices(depth)) {
      const double* const use = stage_.use.data() + choice * stage_.columns;
      const std::size_t run = next.states.size();
      for (std::uint32_t parent = 0; parent < layer.states.size(); ++parent) {
        const State& state = layer.states[parent];
        const double bound = state.bound + change + value_[choice];
        if (bound < above_ + 1.0 - kRounding) continue;
        const double* const used = layer.used.data() + parent * stage_.columns;
        bool fits = true;
        for (std::size_t c = 0; c < stage_.columns && fits; ++c)
          fits = used[c] + use[c] + rest[c] <= stage_.limits[c] + slack(c);
        if (!fits) continue;
        next.states.push_back({state.score + stage_.score[choice], bound, parent, choice});
        next.used.resize(next.used.size() + stage_.columns);
        double* const row = next.used.data() + next.used.size() - stage_.columns;
        for (std::size_t c = 0; c < stage_.columns; ++c) row[c] = used[c] + use[c];
      }
      if (next.states.size() > run) next.runs.push_back(run);
    }
  }

  // The states in the order in which they are thinned. Each run is already sorted, because a choice adds the same to
  // all of its states.
  std::vector<Rank> ranked(const Layer& layer) const {
    std::vector<Rank> ranks(layer.states.size());
    for (std::uint32_t row = 0; row < ranks.size(); ++row)
      ranks[row] = {stage_.resources > 0 ? layer.used[row * stage_.columns] : 0.0,
                    stage_.resources > 1 ? layer.used[row * stage_.columns + 1] : 0.0, layer.states[row].score, row};
    std::vector<std::size_t> ends = layer.runs;  // Begins of the runs, then the end of the last one.
    ends.push_back(ranks.size());
    std::vector<Rank> merged(ranks.size());
    while (ends.size() > 2) {
      std::vector<std::size_t> fewer;
      for (std::size_t i = 0; i + 1 < ends.size(); i += 2) {
        const auto at = [&](std::size_t run) {
          return ranks.begin() + static_cast<std::ptrdiff_t>(ends[std::min(run, ends.size() - 1)]);
        };
        std::merge(at(i), at(i + 1), at(i + 1), at(i + 2), merged.begin() + (at(i) - ranks.begin()));
        fewer.push_back(ends[i]);
      }
      fewer.push_back(ranks.size());
      ranks.swap(merged);
      ends = std::move(fewer);
    }
    return ranks;
  }

  [[nodiscard]] bool dominates(const Layer& layer, std::uint32_t one, std::uint32_t other) const {
    if (layer.states[one].score < layer.states[other].score) return false;
    for (std::size_t r = 0; r < stage_.resources; ++r)
      if (layer.used[one * stage_.columns + r] > layer.used[other * stage_.columns + r]) return false;
    return true;
  }

  // Keeps only states that are not dominated, up to the maximum number.
  void thin(const Layer& layer, std::size_t depth, Layer& left) {
    made_ += layer.states.size();
    // A state can only be dominated by one that uses no more of the first resource.
    const std::vector<Rank> ranks = ranked(layer);
    std::vector<std::uint32_t> kept;
    for (const Rank& rank : ranks) {
      const std::size_t from = kept.size() > kDominatorsMax ? kept.size() - kDominatorsMax : 0;
      bool beaten = false;
      for (std::size_t i = kept.size(); i-- > from && !beaten;) beaten = dominates(layer, kept[i], rank.row);
      if (!beaten) kept.push_back(rank.row);
    }
    drop_the_weakest(layer, kept, depth);
    left.clear();
    left.states.reserve(kept.size());
    left.used.reserve(kept.size() * stage_.columns);
    for (const std::uint32_t row : kept) {
      left.states.push_back(layer.states[row]);
      const auto from = layer.used.begin() + static_cast<std::ptrdiff_t>(row * stage_.columns);
      left.used.insert(left.used.end(), from, from + static_cast<std::ptrdiff_t>(stage_.columns));
    }
  }

  void drop_the_weakest(const Layer& layer, std::vector<std::uint32_t>& kept, std::size_t depth) {
    std::size_t allowed = limits_.states_max;
    if (depth < order_.size()) {  // Divides the remaining work among the remaining depths.
      const std::size_t left = limits_.work_max > made_ ? limits_.work_max - made_ : 0;
      std::size_t wide = 0;
      for (std::size_t d = depth; d < order_.size(); ++d) wide += choices(d).size();
      allowed = std::clamp<std::size_t>(left / std::max<std::size_t>(wide, 1), 1, allowed);
    }
    if (kept.size() <= allowed) return;
    std::vector<std::uint32_t> by_bound = kept;
    const auto cut = by_bound.begin() + static_cast<std::ptrdiff_t>(allowed);
    const auto stronger = [&](std::uint32_t a, std::uint32_t b) {
      const double x = layer.states[a].bound, y = layer.states[b].bound;
      return x != y ? x > y : a < b;
    };
    std::nth_element(by_bound.begin(), cut, by_bound.end(), stronger);
    const std::uint32_t strongest_lost = *cut;
    dropped_ = std::max(dropped_, layer.states[strongest_lost].bound);
    std::erase_if(kept, [&](std::uint32_t row) { return !stronger(row, strongest_lost); });
  }

  // Completes the most promising states greedily: a better selection found early saves states later.
  void complete_the_best(const Layer& layer, std::size_t depth) {
    std::vector<std::uint32_t> rows(layer.states.size());
    std::iota(rows.begin(), rows.end(), 0U);
    const std::size_t count = std::min(kCompletionsMax, rows.size());
    std::partial_sort(rows.begin(), rows.begin() + static_cast<std::ptrdiff_t>(count), rows.end(),
                      [&](std::uint32_t a, std::uint32_t b) {
                        const double x = layer.states[a].bound, y = layer.states[b].bound;
                        return x != y ? x > y : a < b;
                      });
    for (std::size_t i = 0; i < count; ++i) complete(layer, rows[i], depth);
    if (depth < order_.size()) return;
    for (std::uint32_t row = 0; row < layer.states.size(); ++row)
      if (layer.states[row].score > above_) complete(layer, row, depth);
  }

  void complete(const Layer& layer, std::uint32_t row, std::size_t depth) {
    double score = layer.states[row].score;
    std::vector<double> used(layer.used.begin() + static_cast<std::ptrdiff_t>(row * stage_.columns),
                             layer.used.begin() + static_cast<std::ptrdiff_t>((row + 1) * stage_.columns));
    std::vector<std::uint32_t> tail;
    for (std::size_t d = depth; d < order_.size(); ++d) {
      const double* const rest = rest_use_.data() + (d + 1) * stage_.columns;
      std::uint32_t best = kNone;
      for (const std::uint32_t choice : choices(d)) {
        bool fits = true;
        for (std::size_t c = 0; c < stage_.columns && fits; ++c)
          fits = used[c] + stage_.use[choice * stage_.columns + c] + rest[c] <= stage_.limits[c];
        if (!fits) continue;
        best = choice;
        break;
      }
      if (best == kNone) return;
      score += stage_.score[best];
      for (std::size_t c = 0; c < stage_.columns; ++c) used[c] += stage_.use[best * stage_.columns + c];
      tail.push_back(best);
    }
    if (score <= above_) return;
    std::vector<std::uint32_t> choices(order_.size());
    for (std::size_t d = depth; d < order_.size(); ++d) choices[order_[d]] = tail[d - depth];
    for (std::size_t d = depth; d-- > 0;) {
      choices[order_[d]] = history_[d][row].choice;
      row = history_[d][row].parent;
    }
    better_ = total_of(stage_, std::move(choices));
    above_ = better_->score;
  }

  const Stage& stage_;
  double above_;
  SearchLimits limits_;
  double dropped_;
  std::size_t made_ = 0;
  std::vector<std::size_t> order_;
  std::vector<double> value_;          // By choice: score - prices · use.
  std::vector<std::uint32_t> ranked_;  // Choices, sorted by value within each group, highest first.
  std::vector<double> rest_value_, rest_use_;
  double constant_ = 0.0;
  std::vector<std::vector<Link>> history_;  // By depth, to trace a selection back.
  std::optional<Selection> better_;
};

}  // namespace

SearchResult search(const Stage& stage, std::span<const double> prices, double above, const SearchLimits& limits) {
  return Search(stage, prices, above, limits).run();
}

}  // namespace penstock::planner::global
