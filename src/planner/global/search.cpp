#include "planner/global/search.h"

#include <algorithm>
#include <cstdio>
#include <limits>
#include <numeric>
#include <vector>

namespace penstock::planner::global {
namespace {

constexpr std::size_t kDominatorsMax = 24;   // earlier states that a state is compared with
constexpr std::size_t kCompletionsMax = 4;   // states of a depth that are finished greedily, for a better selection
constexpr std::uint32_t kNobody = std::numeric_limits<std::uint32_t>::max();

struct State {
  double score;
  double bound;  // of all selections that begin like this
  std::uint32_t parent;
  std::uint32_t choice;
};

// The states of one depth; their uses lie in one array, a row for each.
struct Layer {
  std::vector<State> states;
  std::vector<double> used;
};

class Search {
 public:
  Search(const Stage& stage, std::span<const double> prices, double above, const SearchLimits& limits)
      : stage_(stage), above_(above), limits_(limits), dropped_(-std::numeric_limits<double>::infinity()) {
    prepare_values(prices);
    order_groups();
    prepare(prices);
  }

  SearchResult run() {
    Layer layer;
    layer.states.push_back({0.0, constant_ + rest_value_[0], kNobody, kNobody});
    layer.used.assign(stage_.columns, 0.0);
    for (std::size_t depth = 0; depth < order_.size(); ++depth) {
      Layer next = extend(layer, depth);
      history_.push_back(std::move(layer.states));
      layer = thinned(std::move(next), depth + 1);
      complete_the_best(layer, depth + 1);
      if (layer.states.empty()) break;
    }
    history_.push_back(std::move(layer.states));
#ifdef TRACE
    std::fprintf(stderr, "   search: states %zu made %zu above %.0f dropped %.0f choices %zu\n", limits_.states_max, made_, above_, dropped_, stage_.score.size());
#endif
    const double best = better_ ? better_->score : above_;
    return {std::move(better_), std::max(best, dropped_)};
  }

 private:
  [[nodiscard]] std::uint32_t first(std::size_t depth) const { return stage_.begin[order_[depth]]; }
  [[nodiscard]] std::uint32_t last(std::size_t depth) const { return stage_.begin[order_[depth] + 1]; }

  // Groups with few choices first: what they leave is known before states multiply.
  void order_groups() {
    order_.resize(stage_.groups());
    std::iota(order_.begin(), order_.end(), std::size_t{0});
    std::vector<double> key(stage_.groups());
    const int mode = std::getenv("ORD") ? std::atoi(std::getenv("ORD")) : 0;
    for (std::size_t g = 0; g < stage_.groups(); ++g) {
      std::vector<double> v(value_.begin() + stage_.begin[g], value_.begin() + stage_.begin[g + 1]);
      std::sort(v.rbegin(), v.rend());
      const double count = double(v.size());
      double mu = 0; 
      for (std::uint32_t c = stage_.begin[g]; c < stage_.begin[g + 1]; ++c) mu = std::max(mu, stage_.use[c * stage_.columns]);
      double least = 1e300; for (std::uint32_t c = stage_.begin[g]; c < stage_.begin[g + 1]; ++c) least = std::min(least, stage_.use[c * stage_.columns]);
      const double regret = v.size() > 1 ? v[0] - v[1] : -1;
      key[g] = mode == 0 ? count : mode == 1 ? -count : mode == 2 ? regret : mode == 3 ? (v.size() > 1 ? -regret : -1e300) : mode == 4 ? -(mu-least) : mode == 5 ? (mu-least) : mode == 6 ? v.back() - v.front() : v.front() - v.back();
    }
    std::stable_sort(order_.begin(), order_.end(), [&](std::size_t a, std::size_t b) { return key[a] < key[b]; });
  }

  void prepare_values(std::span<const double> prices) {
    value_.resize(stage_.score.size());
    for (std::uint32_t choice = 0; choice < value_.size(); ++choice)
      value_[choice] = stage_.score[choice] - stage_.priced(choice, prices);
  }

  // What the groups from each depth on take at least of every column, and bring at most at the prices.
  void prepare(std::span<const double> prices) {
    value_.resize(stage_.score.size());
    for (std::uint32_t choice = 0; choice < value_.size(); ++choice)
      value_[choice] = stage_.score[choice] - stage_.priced(choice, prices);
    constant_ = 0.0;
    for (std::size_t r = 0; r < stage_.resources; ++r) constant_ += prices[r] * stage_.limits[r];
    rest_value_.assign(order_.size() + 1, 0.0);
    rest_use_.assign((order_.size() + 1) * stage_.columns, 0.0);
    for (std::size_t depth = order_.size(); depth-- > 0;) {
      double most = -std::numeric_limits<double>::infinity();
      for (std::uint32_t choice = first(depth); choice < last(depth); ++choice) most = std::max(most, value_[choice]);
      rest_value_[depth] = rest_value_[depth + 1] + most;
      for (std::size_t c = 0; c < stage_.columns; ++c) {
        double least = std::numeric_limits<double>::infinity();
        for (std::uint32_t choice = first(depth); choice < last(depth); ++choice)
          least = std::min(least, stage_.use[choice * stage_.columns + c]);
        rest_use_[depth * stage_.columns + c] = rest_use_[(depth + 1) * stage_.columns + c] + least;
      }
    }
  }

  [[nodiscard]] double slack(std::size_t column) const { return column < stage_.resources ? 0.0 : kRounding; }

  Layer extend(const Layer& layer, std::size_t depth) {
    Layer next;
    const double* const rest = rest_use_.data() + (depth + 1) * stage_.columns;
    for (std::uint32_t parent = 0; parent < layer.states.size(); ++parent) {
      const State& state = layer.states[parent];
      const double* const used = layer.used.data() + parent * stage_.columns;
      // bound = constant + Σ value of the choices so far + rest: undo this depth's best, put the choice in.
      const double base = state.bound - rest_value_[depth] + rest_value_[depth + 1];
      for (std::uint32_t choice = first(depth); choice < last(depth); ++choice) {
        const double bound = base + value_[choice];
        if (bound < above_ + 1.0 - kRounding) continue;
        bool fits = true;
        for (std::size_t c = 0; c < stage_.columns && fits; ++c)
          fits = used[c] + stage_.use[choice * stage_.columns + c] + rest[c] <= stage_.limits[c] + slack(c);
        if (!fits) continue;
        next.states.push_back({state.score + stage_.score[choice], bound, parent, choice});
        for (std::size_t c = 0; c < stage_.columns; ++c)
          next.used.push_back(used[c] + stage_.use[choice * stage_.columns + c]);
      }
    }
    return next;
  }

  [[nodiscard]] bool dominates(const Layer& layer, std::uint32_t one, std::uint32_t other) const {
    if (layer.states[one].score < layer.states[other].score) return false;
    for (std::size_t r = 0; r < stage_.resources; ++r)
      if (layer.used[one * stage_.columns + r] > layer.used[other * stage_.columns + r]) return false;
    return true;
  }

  // Without dominated states, and no more of them than allowed.
  Layer thinned(Layer layer, std::size_t depth) {
    const auto count = static_cast<std::uint32_t>(layer.states.size());
    made_ += count;
    std::vector<std::uint32_t> rows(count);
    std::iota(rows.begin(), rows.end(), 0U);
    std::sort(rows.begin(), rows.end(), [&](std::uint32_t a, std::uint32_t b) {
      for (std::size_t r = 0; r < stage_.resources; ++r) {
        const double x = layer.used[a * stage_.columns + r], y = layer.used[b * stage_.columns + r];
        if (x != y) return x < y;
      }
      if (layer.states[a].score != layer.states[b].score) return layer.states[a].score > layer.states[b].score;
      return a < b;
    });
    std::vector<std::uint32_t> kept;
    for (const std::uint32_t row : rows) {
      const std::size_t from = kept.size() > kDominatorsMax ? kept.size() - kDominatorsMax : 0;
      const bool beaten =
          std::any_of(kept.begin() + static_cast<std::ptrdiff_t>(from), kept.end(),
                      [&](std::uint32_t earlier) { return dominates(layer, earlier, row); });
      if (!beaten) kept.push_back(row);
    }
    drop_the_weakest(layer, kept, depth);
    Layer left;
    left.states.reserve(kept.size());
    left.used.reserve(kept.size() * stage_.columns);
    for (const std::uint32_t row : kept) {
      left.states.push_back(layer.states[row]);
      const auto from = layer.used.begin() + static_cast<std::ptrdiff_t>(row * stage_.columns);
      left.used.insert(left.used.end(), from, from + static_cast<std::ptrdiff_t>(stage_.columns));
    }
    return left;
  }

  void drop_the_weakest(const Layer& layer, std::vector<std::uint32_t>& kept, std::size_t depth) {
    std::size_t allowed = limits_.states_max;
    if (depth < order_.size()) {  // the work that is left, spread over the depths that are left
      const std::size_t left = limits_.work_max > made_ ? limits_.work_max - made_ : 0;
      std::size_t wide = 0;
      for (std::size_t d = depth; d < order_.size(); ++d) wide += last(d) - first(d);
      allowed = std::clamp<std::size_t>(left / std::max<std::size_t>(wide, 1), 1, allowed);
    }
    if (kept.size() <= allowed) return;
    std::stable_sort(kept.begin(), kept.end(), [&](std::uint32_t a, std::uint32_t b) {
      return layer.states[a].bound > layer.states[b].bound;
    });
    dropped_ = std::max(dropped_, layer.states[kept[allowed]].bound);
    kept.resize(allowed);
  }

  // Finishes the most promising states greedily: what is found early saves states later.
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
      std::uint32_t best = kNobody;
      for (std::uint32_t choice = first(d); choice < last(d); ++choice) {
        if (best != kNobody && value_[choice] <= value_[best]) continue;
        bool fits = true;
        for (std::size_t c = 0; c < stage_.columns && fits; ++c)
          fits = used[c] + stage_.use[choice * stage_.columns + c] + rest[c] <= stage_.limits[c];
        if (fits) best = choice;
      }
      if (best == kNobody) return;
      score += stage_.score[best];
      for (std::size_t c = 0; c < stage_.columns; ++c) used[c] += stage_.use[best * stage_.columns + c];
      tail.push_back(best);
    }
    if (score <= above_) return;
    std::vector<std::uint32_t> choices(order_.size());
    for (std::size_t d = depth; d < order_.size(); ++d) choices[order_[d]] = tail[d - depth];
    State state = layer.states[row];
    for (std::size_t d = depth; d-- > 0;) {
      choices[order_[d]] = state.choice;
      if (d > 0) state = history_[d][state.parent];
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
  std::vector<double> value_, rest_value_, rest_use_;
  double constant_ = 0.0;
  std::vector<std::vector<State>> history_;  // by depth, for the way back
  std::optional<Selection> better_;
};

}  // namespace

SearchResult search(const Stage& stage, std::span<const double> prices, double above, const SearchLimits& limits) {
  return Search(stage, prices, above, limits).run();
}

}  // namespace penstock::planner::global
