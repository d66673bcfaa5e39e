// Chooses how carefully to plan, by what each choice would have cost and missed on the load so far.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "core/state_archive.h"
#include "core/time.h"
#include "planner/penstock/burn_rate.h"
#include "planner/penstock/load_curve.h"
#include "planner/penstock/load_history.h"
#include "planner/penstock/saved_budget.h"

namespace penstock::planner {

// How a fleet follows its load.
struct Controller {
  double allowance = 0.1;                          // Expected share of requests that may miss, over possible futures.
  core::Duration hold = std::chrono::minutes{15};  // The largest plan of this time is kept.
  void archive(core::StateArchive& state) { state.values_of(allowance, hold); }
};

// Minutes of traffic as which the figures of public traces count (docs/decisions/0034).
inline constexpr double kFirstFiguresMinutes = 60.0;

struct BacktestOptions {
  double goal = 0.99;
  core::Duration lag{};  // From the request for a replica until it is ready.
};

struct FleetSize {
  std::uint32_t replicas = 1, least = 1, most = 64;
};

// What plans are made for.
struct PlannedLoad {
  double base = 0.0;                // The load to which `futures` are relative.
  std::span<const double> futures;  // Equally likely multiples of it, ascending.
  double misses = 1.0;              // Multiple of the misses that the goal allows which the base may have.
};

// The smallest fleet within the bounds that reaches the goal on this load, and of whose requests a share of at most
// `allowance` misses on average over its equally likely multiples.
[[nodiscard]] std::uint32_t fleet_for(double load, std::span<const double> multiples, double allowance, double goal,
                                      const LoadCurve& curve, const FleetSize& bounds);

// Every minute, each of a grid of controllers moves a fleet of its own, which serves the recorded load by the curve of
// the trials. The cheapest whose fleet stays within the error budget is chosen. A day of misses that exceed the budget
// lowers what is allowed, and unused budget raises it. If none stays within it, such as after a burst that no fleet of
// this start-up time serves, misses have a price instead.
//
// The first choice follows from the same grid on public traces, and counts as an hour of traffic.
class Backtest {
 public:
  explicit Backtest(const BacktestOptions& options);

  // A minute has ended. `planned` is that of its end.
  void observe(const LoadMinute& minute, const PlannedLoad& planned, const LoadCurve& curve, const BudgetUse& observed,
               const FleetSize& fleet, bool in_force = true);

  [[nodiscard]] const Controller& chosen() const { return controllers_[chosen_].controller; }
  // The choice before any history.
  [[nodiscard]] const Controller& first() const { return controllers_[first_].controller; }
  // Replicas of the chosen controller relative to those of the first.
  [[nodiscard]] double replicas_to_first() const { return figures(chosen_).replicas / figures(first_).replicas; }
  // Of the chosen controller: its share of misses.
  [[nodiscard]] double missed_share() const { return figures(chosen_).missed; }
  // The same, corrected by what was observed, and the share that it was chosen for, both at the time of the choice. If
  // the first is larger, no controller stays within the budget.
  [[nodiscard]] double expected_misses() const { return misses_at_choice_; }
  [[nodiscard]] double aim() const { return aim_at_choice_; }
  // Share of the error budget of the last half day that is left; negative if more was missed than allowed.
  [[nodiscard]] double budget_left() const;

  void archive(core::StateArchive& state);

 private:
  struct Figures {
    double missed = 0.0, replicas = 1.0;  // Share of the requests; multiple of those of the reference.
  };
  struct Tried {
    Controller controller;
    Figures first{};                      // On public traces.
    double missed = 0.0, replicas = 0.0;  // Sums; earlier minutes count less.
    std::uint32_t target = 0, ready = 0;
    std::deque<std::uint32_t> orders{};  // Replicas that become ready in the next minutes.
    double queue = 0.0;                  // Weighted tokens.
    bool moved = false, shrank = false;  // Whether the target has changed; the last change.
    void archive(core::StateArchive& state) {
      state.values_of(missed, replicas, target, ready, orders, queue, moved, shrank);
    }
  };
  void follow(Tried& tried, std::uint32_t target) const;
  void serve(Tried& tried, const LoadMinute& minute, const LoadCurve& curve) const;
  // Replica-minutes of its fleet so far, and those that its hold will keep beyond the present proposal.
  [[nodiscard]] double replicas(std::size_t controller) const;
  [[nodiscard]] Figures figures(std::size_t controller) const;
  void choose();

  BacktestOptions options_;
  std::size_t lag_;  // In minutes.
  std::vector<Tried> controllers_;
  std::vector<std::deque<std::uint32_t>> proposals_;  // By allowance: of the last minutes, latest last.
  double requests_ = 0.0, history_ = 0.0;             // In all sums of `controllers_`, and their minutes.
  double first_weight_ = kFirstFiguresMinutes;        // Minutes as which the first figures count.
  BudgetUse observed_;
  double expected_missed_ = 0.0;  // By the fleets of the controllers that were chosen, which any fleet misses left out.
  double misses_at_choice_ = 0.0, aim_at_choice_ = 0.0;
  std::uint64_t minutes_ = 0;
  std::size_t chosen_ = 0, first_ = 0, reference_ = 0;
};

}  // namespace penstock::planner
