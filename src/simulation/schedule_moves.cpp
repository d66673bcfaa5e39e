#include "simulation/schedule_moves.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace penstock::simulation {
namespace {

constexpr double kWorthTrying = 0.25;  // Of what a replica more costs: the model is rough.

struct Scored {
  Move move;
  double score = 0.0;
};

bool may_be(const Move& move, const std::vector<Schedule>& schedules, const MoveContext& context) {
  const MissTable& table = context.tables[move.pool];
  if (move.begin >= move.end || move.to == move.from || move.to < table.smallest || move.to > table.largest())
    return false;
  const ScheduleLimits& limits = context.limits[move.pool];
  const bool early = schedules[move.pool].window * static_cast<std::int64_t>(move.begin) < limits.start_up;
  return !early || move.to <= std::max(move.from, limits.initial);
}

// Above 1: the model expects that the move is worth it.
double score_of(const Move& move, const SchedulePlan& plan, const MoveContext& context) {
  const double cost = cost_of(move, plan.schedules, context);
  const MissTable& table = context.tables[move.pool];
  double expected = 0.0, missed = 0.0;
  for (std::size_t window = move.begin; window < move.end; ++window) {
    expected += table.misses[window][move.to - table.smallest] - table.misses[window][move.from - table.smallest];
    missed += plan.misses[window];
  }
  const double price = std::max(1e-9, context.price_s);
  if (cost < 0.0) return -cost / (price * (1.0 + std::max(0.0, expected)));
  // Replicas more can save no more than what misses there and in the window after, which serves what is left.
  if (move.end < plan.misses.size()) missed += plan.misses[move.end];
  const double saved = std::min(missed, std::max(-expected, 0.5 * missed));
  return saved < 1.0 ? 0.0 : price * saved / std::max(1.0, cost);
}

// Moves of the stretch [begin, end), in which the size is constant.
void add_moves(std::size_t pool, std::size_t begin, std::size_t end, const std::vector<std::uint32_t>& replicas,
               std::vector<Move>& moves) {
  const std::uint32_t size = replicas[begin];
  const std::size_t middle = (begin + end) / 2, quarter = (end - begin) / 4;
  for (const bool down : {true, false}) {
    if (down && size == 0) continue;
    const std::uint32_t to = down ? size - 1 : size + 1;
    for (const auto& [first, last] : {std::pair{begin, end},
                                      {begin, middle},
                                      {middle, end},
                                      {begin, begin + 1},
                                      {end - 1, end},
                                      {begin, begin + quarter},
                                      {begin + quarter, middle},
                                      {middle, end - quarter},
                                      {end - quarter, end}})
      moves.push_back({pool, first, last, size, to});
  }
  // A border moves by one window.
  if (begin > 0) moves.push_back({pool, begin, begin + 1, size, replicas[begin - 1]});
  if (end < replicas.size()) moves.push_back({pool, end - 1, end, size, replicas[end]});
}

struct Effect {
  std::size_t first = 0, last = 0;  // Windows [first, last).
};

Effect effect_of(const Move& move, std::size_t windows, std::size_t reach) {
  return {move.begin == 0 ? 0 : move.begin - 1, std::min(windows, move.end + reach)};
}

}  // namespace

double cost_of(const Move& move, const std::vector<Schedule>& schedules, const MoveContext& context) {
  const Schedule& schedule = schedules[move.pool];
  const ScheduleLimits& limits = context.limits[move.pool];
  const std::uint32_t before = move.begin == 0 ? limits.initial : schedule.replicas[move.begin - 1];
  const auto grown = [&](std::uint32_t size) {
    double replicas = size > before ? size - before : 0.0;
    if (move.end < schedule.replicas.size() && schedule.replicas[move.end] > size)
      replicas += schedule.replicas[move.end] - size;
    return replicas;
  };
  const double width_s = core::to_seconds(schedule.window) * static_cast<double>(move.end - move.begin);
  const double seconds = (static_cast<double>(move.to) - static_cast<double>(move.from)) * width_s +
                         (grown(move.to) - grown(move.from)) * limits.growth_s();
  return context.prices[move.pool] * seconds;
}

std::vector<Move> propose(const SchedulePlan& plan, const MoveContext& context, std::set<Move>& tried) {
  std::vector<Move> moves;
  for (std::size_t pool = 0; pool < plan.schedules.size(); ++pool) {
    const std::vector<std::uint32_t>& replicas = plan.schedules[pool].replicas;
    for (std::size_t begin = 0, end = 0; begin < replicas.size(); begin = end) {
      while (end < replicas.size() && replicas[end] == replicas[begin]) ++end;
      add_moves(pool, begin, end, replicas, moves);
      for (std::size_t window = begin; window < end; ++window)
        if (plan.misses[window] >= 1.0)
          moves.push_back({pool, window, window + 1, replicas[window], replicas[window] + 1});
    }
  }
  std::vector<Scored> scored;
  for (const Move& move : moves) {
    if (!may_be(move, plan.schedules, context) || tried.contains(move)) continue;
    const double score = score_of(move, plan, context);
    // The model may be wrong about the harm of a replica less; only a trial shows it.
    if (score >= kWorthTrying || cost_of(move, plan.schedules, context) < 0.0) scored.push_back({move, score});
  }
  std::stable_sort(scored.begin(), scored.end(), [](const Scored& a, const Scored& b) { return a.score > b.score; });
  std::vector<Move> chosen;
  std::vector<bool> taken(plan.misses.size());
  for (const Scored& each : scored) {
    const Effect effect = effect_of(each.move, taken.size(), context.reach);
    const auto first = taken.begin() + static_cast<std::ptrdiff_t>(effect.first);
    const auto last = taken.begin() + static_cast<std::ptrdiff_t>(effect.last);
    if (std::find(first, last, true) != last) continue;
    std::fill(first, last, true);
    if (tried.insert(each.move).second) chosen.push_back(each.move);
  }
  return chosen;
}

void apply(const Move& move, std::vector<Schedule>& schedules) {
  auto& replicas = schedules[move.pool].replicas;
  std::fill(replicas.begin() + static_cast<std::ptrdiff_t>(move.begin),
            replicas.begin() + static_cast<std::ptrdiff_t>(move.end), move.to);
}

void adopt(std::span<const Move> moves, std::span<const double> seen, double allowed, const MoveContext& context,
           SchedulePlan& plan) {
  struct Change {
    double cost = 0.0, misses = 0.0;  // Changes.
  };
  std::vector<Change> outcomes;
  std::vector<double> prices{0.0};  // Of a miss, at which the selection changes.
  for (const Move& move : moves) {
    Change& outcome = outcomes.emplace_back(cost_of(move, plan.schedules, context), 0.0);
    const Effect effect = effect_of(move, seen.size(), context.reach);
    for (std::size_t window = effect.first; window < effect.last; ++window)
      outcome.misses += seen[window] - plan.misses[window];
    if (outcome.cost * outcome.misses < 0.0) prices.push_back(-outcome.cost / outcome.misses);
  }
  std::sort(prices.begin(), prices.end());
  const auto chosen = [&](const Change& outcome, double price) {
    const double gain = outcome.cost + price * outcome.misses;
    return gain < 0.0 || (gain == 0.0 && outcome.misses < 0.0);
  };
  double price = prices.back();
  for (const double each : prices) {
    const double slightly_more = each * (1.0 + 1e-9);
    double total = plan.total;
    for (const Change& outcome : outcomes)
      if (chosen(outcome, slightly_more)) total += outcome.misses;
    price = slightly_more;
    if (total <= allowed) break;
  }
  for (std::size_t i = 0; i < moves.size(); ++i) {
    if (!chosen(outcomes[i], price)) continue;
    const Effect effect = effect_of(moves[i], seen.size(), context.reach);
    for (std::size_t window = effect.first; window < effect.last; ++window) plan.misses[window] = seen[window];
    plan.total += outcomes[i].misses;
    apply(moves[i], plan.schedules);
  }
}

}  // namespace penstock::simulation
