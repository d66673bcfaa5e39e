#include "planner/global/multi_choice.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "core/result.h"
#include "planner/global/dense.h"

namespace penstock::planner::global {

namespace {

constexpr std::size_t kFirstStates = 16;
constexpr std::size_t kWidening = 16;
constexpr std::size_t kWorkShare = 2;

bool has_empty_group(const Stage& stage) {
  for (std::size_t group = 0; group < stage.groups(); ++group)
    if (stage.begin[group] == stage.begin[group + 1]) return true;
  return false;
}

// What the selection with the lowest losses in pinned criteria, compared one after the other, proves about the
// selections that lose no more than allowed.
enum class Verdict : std::uint8_t {
  kExact,       // It loses exactly what is allowed, and so does every selection that fits; it has the highest score.
  kImpossible,  // It loses more, so none fits.
  kNothing,     // It loses less, and others may score more.
};
Verdict verdict_of(const Stage& stage, const Selection& loses_least) {
  for (std::size_t r = 1; r < stage.resources; ++r) {
    if (loses_least.used[r] > stage.limits[r]) return Verdict::kImpossible;
    if (loses_least.used[r] < stage.limits[r]) return Verdict::kNothing;
  }
  return Verdict::kExact;
}

}  // namespace

MultiChoice::MultiChoice(std::vector<double> limits, std::size_t criteria, const SearchLimits& search)
    : own_resources_(limits.size()), criteria_(criteria), search_(search) {
  for (const double limit : limits) resources_.push_back({{}, limit});
}

void MultiChoice::add_group() {
  active_.emplace_back();
  selected_.push_back(begin_.back());
  begin_.push_back(begin_.back());
}

void MultiChoice::add_choice(std::span<const double> scores, std::span<const double> uses) {
  PENSTOCK_ASSERT(scores.size() == criteria_ && uses.size() == own_resources_, "a choice has all its figures");
  active_.back().push_back(begin_.back()++);
  scores_.insert(scores_.end(), scores.begin(), scores.end());
  for (std::size_t r = 0; r < own_resources_; ++r) resources_[r].use.push_back(uses[r]);
}

bool MultiChoice::first_choices_fit() const {
  for (const Column& resource : resources_) {
    double sum = 0.0;
    for (std::size_t group = 0; group < active_.size(); ++group) sum += resource.use[begin_[group]];
    if (sum > resource.limit) return false;
  }
  return true;
}

std::vector<double> MultiChoice::scores_of(std::size_t criterion) const {
  std::vector<double> scores(begin_.back());
  for (std::size_t choice = 0; choice < scores.size(); ++choice)
    scores[choice] = scores_[choice * criteria_ + criterion];
  return scores;
}

Stage MultiChoice::stage_of(std::span<const double> scores_by_choice) const {
  Stage stage;
  stage.resources = resources_.size();
  stage.columns = resources_.size() + checks_.size();
  for (const Column& column : resources_) stage.limits.push_back(column.limit);
  for (const Column& column : checks_) stage.limits.push_back(column.limit);
  stage.begin = {0};
  stage.score.reserve(begin_.back());
  stage.id.reserve(begin_.back());
  stage.use.reserve(begin_.back() * stage.columns);
  for (const auto& group : active_) {
    for (const std::uint32_t choice : group) {
      stage.score.push_back(scores_by_choice[choice]);
      stage.id.push_back(choice);
      for (const Column& column : resources_) stage.use.push_back(column.use[choice]);
      for (const Column& column : checks_) stage.use.push_back(column.use[choice]);
    }
    stage.begin.push_back(static_cast<std::uint32_t>(stage.score.size()));
  }
  return stage;
}

// The selection in the stage's numbering. If its choice was removed, the choice that dominates it is as good and uses
// no more.
Selection MultiChoice::current_in(const Stage& stage) const {
  std::vector<std::uint32_t> choices;
  for (std::size_t group = 0; group < selected_.size(); ++group) {
    std::uint32_t found = stage.begin[group + 1];
    for (std::uint32_t c = stage.begin[group]; c < stage.begin[group + 1]; ++c)
      if (stage.id[c] == selected_[group]) found = c;
    PENSTOCK_ASSERT(found < stage.begin[group + 1], "what is selected was not ruled out");
    choices.push_back(found);
  }
  return total_of(stage, std::move(choices));
}

void MultiChoice::adopt(const Stage& stage, const Selection& selection) {
  for (std::size_t group = 0; group < selected_.size(); ++group) selected_[group] = stage.id[selection.choices[group]];
}

Maximum MultiChoice::maximise(std::size_t criterion) {
  const std::vector<double> scores = scores_of(criterion);
  const Stage whole = stage_of(scores);
  const Selection start = current_in(whole);
  // Removes dominated choices, even selected ones. Choices above a limit stay for now: without them, a limit that
  // blocks every group would seem to have no value.
  const Stage stage = undominated(whole);
  std::vector<std::uint32_t> equals;
  for (std::size_t group = 0; group < selected_.size(); ++group) {
    std::uint32_t stand_in = stage.begin[group];
    for (std::uint32_t c = stage.begin[group]; c < stage.begin[group + 1]; ++c) {
      bool serves = stage.score[c] >= whole.score[start.choices[group]];
      for (std::size_t r = 0; r < stage.resources && serves; ++r)
        serves = stage.uses(c)[r] <= whole.uses(start.choices[group])[r];
      if (serves) stand_in = c;
    }
    equals.push_back(stand_in);
  }
  Selection incumbent = total_of(stage, std::move(equals));
  PENSTOCK_ASSERT(incumbent.fits(stage) && incumbent.score >= start.score, "a dominating choice serves as well");
  Relaxation relaxation = relax(stage, std::move(incumbent));
  double best = relaxation.best.score;
  double bound = std::max(best, std::floor(relaxation.bound + kRounding));
  adopt(stage, relaxation.best);
  // Starts with a narrow search, because its result excludes many states of a wide one.
  for (std::size_t states = kFirstStates; bound > best; states *= kWidening) {
    const Stage open = reduced(reduced(stage, relaxation.prices, best + 1.0));
    if (has_empty_group(open)) {
      bound = best;
      break;
    }
    const SearchResult result = search_within(open, relaxation.prices, best, std::min(states, search_.states_max));
    if (result.better) {
      best = result.better->score;
      adopt(open, *result.better);
    }
    bound = std::min(bound, std::max(best, std::floor(result.bound + kRounding)));
    if (bound <= best || states >= search_.states_max) break;
    if (own_resources_ != 1) continue;
    const auto tabled = best_by_table(open);
    const Verdict verdict = tabled ? verdict_of(open, *tabled) : Verdict::kNothing;
    if (verdict == Verdict::kExact && tabled->score > best) {
      best = tabled->score;
      adopt(open, *tabled);
    }
    if (verdict != Verdict::kNothing) bound = best;
  }
  pin(scores, best, relaxation.prices);
  relaxation.prices.resize(own_resources_);
  return {best, bound, std::move(relaxation.prices)};
}

// Each search may use a share of the remaining work, so that later searches have some left.
SearchResult MultiChoice::search_within(const Stage& stage, std::span<const double> prices, double above,
                                        std::size_t states_max) {
  SearchResult result = search(stage, prices, above, {states_max, search_.work_max / kWorkShare});
  search_.work_max -= std::min(search_.work_max, result.made);
  return result;
}

void MultiChoice::pin(std::span<const double> scores, double reached, std::span<const double> prices) {
  Column loss{std::vector<double>(scores.size(), 0.0), 0.0};
  double most_of_all = 0.0;
  for (const auto& group : active_) {
    double most = -std::numeric_limits<double>::infinity();
    for (const std::uint32_t choice : group) most = std::max(most, scores[choice]);
    for (const std::uint32_t choice : group) loss.use[choice] = most - scores[choice];
    most_of_all += most;
  }
  loss.limit = most_of_all - reached;
  // loss + p·use ≤ loss limit + p·limits follows from the resources; the minimum of the left side over each group makes
  // it a bound.
  Column check = loss;
  for (std::size_t r = 0; r < prices.size(); ++r) {
    if (prices[r] <= 0.0) continue;
    check.limit += prices[r] * resources_[r].limit;
    for (std::size_t choice = 0; choice < check.use.size(); ++choice)
      check.use[choice] += prices[r] * resources_[r].use[choice];
  }
  resources_.push_back(std::move(loss));
  checks_.push_back(std::move(check));
  shrink_to(stage_of(scores));
}

void MultiChoice::shrink_to(const Stage& stage) {
  std::vector<double> sum(stage.columns, 0.0), least(stage.groups() * stage.columns);
  for (std::size_t group = 0; group < stage.groups(); ++group)
    for (std::size_t c = 0; c < stage.columns; ++c) {
      double& of = least[group * stage.columns + c] = std::numeric_limits<double>::infinity();
      for (std::uint32_t i = stage.begin[group]; i < stage.begin[group + 1]; ++i) of = std::min(of, stage.uses(i)[c]);
      sum[c] += of;
    }
  for (std::size_t group = 0; group < stage.groups(); ++group) {
    active_[group].clear();
    for (std::uint32_t i = stage.begin[group]; i < stage.begin[group + 1]; ++i) {
      bool possible = stage.id[i] == selected_[group];
      if (!possible) {
        possible = true;
        for (std::size_t c = own_resources_; c < stage.columns && possible; ++c)
          possible = sum[c] - least[group * stage.columns + c] + stage.uses(i)[c] <=
                     stage.limits[c] + (c < stage.resources ? 0.0 : kRounding);
      }
      if (possible) active_[group].push_back(stage.id[i]);
    }
  }
}

Restriction MultiChoice::restrict_to(const std::vector<bool>& allowed) {
  const std::vector<std::vector<std::uint32_t>> before = active_;
  bool selected_stays = true;
  for (std::size_t group = 0; group < active_.size(); ++group) {
    std::erase_if(active_[group], [&](std::uint32_t choice) { return !allowed[choice]; });
    selected_stays = selected_stays && allowed[selected_[group]];
  }
  if (selected_stays) return Restriction::kKept;
  const std::vector<double> nothing(begin_.back(), 0.0);
  const Stage stage = reduced(stage_of(nothing));
  Feasibility feasibility = find_feasible(stage);
  bool unknown = !feasibility.found && !feasibility.impossible;
  if (unknown) {
    SearchResult result = search_within(stage, feasibility.prices, -1.0, std::min(kFirstStates, search_.states_max));
    feasibility.found = std::move(result.better);
    unknown = result.bound > -1.0;
  }
  if (feasibility.found) {
    adopt(stage, *feasibility.found);
    return Restriction::kKept;
  }
  active_ = before;
  return unknown ? Restriction::kUnknown : Restriction::kImpossible;
}

std::vector<std::uint32_t> MultiChoice::selection() const {
  std::vector<std::uint32_t> choices;
  for (std::size_t group = 0; group < selected_.size(); ++group) choices.push_back(selected_[group] - begin_[group]);
  return choices;
}

}  // namespace penstock::planner::global
