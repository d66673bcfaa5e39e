#include "planner/penstock/backtest.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace penstock::planner {
namespace {

constexpr std::array<double, 7> kAllowances{0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3};
constexpr std::array<int, 5> kHolds{5, 10, 15, 30, 60};  // Minutes.

constexpr double kKeptOfDay = 0.99861;   // 1/e in twelve hours.
constexpr double kFirstMinutes = 120.0;  // Minutes whose weight the first figures have.
constexpr double kCareful = 0.7;         // Share of the error budget that is planned: the best of many is lucky.
constexpr double kCareMost = 0.3, kCareLeast = 2.0;   // Bounds of what past misses make of it.
constexpr double kBiasLeast = 0.25, kBiasMost = 4.0;  // Bounds of the observed misses relative to the expected ones.
constexpr double kSame = 0.985;                       // A change must save more than this leaves.
constexpr std::uint64_t kChooseEvery = 10;            // Minutes.
constexpr double kLateAfter_s = 2.0;                  // A queue of this time makes all requests late.
constexpr std::uint32_t kShrinkShare = 3;             // A fleet loses at most a third in a minute, like the guardrails.

// Misses and replicas of this grid on the ServeGen days m-large 0 and m-mid 1 and on 14 h of DeepSeek-R1, as powers of
// the allowance and the hold, relative to an allowance of 0.1 and a hold of 15 minutes.
constexpr double kFirstMissed = 0.0174;
constexpr double kMissedByAllowance = 1.03, kMissedByHold = -0.93;
constexpr double kReplicasByAllowance = -0.107, kReplicasByHold = 0.118;

}  // namespace

Backtest::Backtest(const BacktestOptions& options)
    : options_(options),
      lag_(static_cast<std::size_t>(
          std::max<std::int64_t>(0, (options.lag + core::kMinute - core::Duration{1}) / core::kMinute))),
      proposals_(kAllowances.size()) {
  for (const double allowance : kAllowances)
    for (const int hold : kHolds) {
      Tried tried{{allowance, hold * core::kMinute}};
      const double careless = allowance / 0.1, longer = hold / 15.0;
      tried.missed = kFirstMissed * std::pow(careless, kMissedByAllowance) * std::pow(longer, kMissedByHold);
      tried.replicas = std::pow(careless, kReplicasByAllowance) * std::pow(longer, kReplicasByHold);
      controllers_.push_back(std::move(tried));
    }
  requests_ = 1.0;
  choose();
  first_ = chosen_;
}

void Backtest::observe(const LoadMinute& minute, double base, std::span<const double> futures, const LoadCurve& curve,
                       const BudgetUse& observed, const FleetSize& fleet) {
  if (!curve.known() || (minutes_ == 0 && !(minute.requests > 0.0))) return;
  if (minutes_ == 0) {  // The first figures get the weight of as many minutes like this one.
    for (Tried& tried : controllers_) {
      tried.missed *= kFirstMinutes * minute.requests;
      tried.replicas *= kFirstMinutes * fleet.replicas;
      tried.target = tried.ready = fleet.replicas;
      tried.orders.assign(lag_, 0);
    }
    for (auto& proposals : proposals_) proposals.assign(kHolds.back(), fleet.replicas);
    requests_ = kFirstMinutes * minute.requests;
  }
  ++minutes_;
  requests_ = kKeptOfDay * requests_ + minute.requests;
  observed_missed_ = kKeptOfDay * observed_missed_ + observed.missed;
  observed_allowed_ = kKeptOfDay * observed_allowed_ + observed.allowed;
  for (std::size_t i = 0; i < kAllowances.size(); ++i) {
    proposals_[i].pop_front();
    proposals_[i].push_back(proposal(kAllowances[i], base, futures, curve, fleet));
  }
  const double before = controllers_[chosen_].missed;
  for (std::size_t i = 0; i < controllers_.size(); ++i) {
    serve(controllers_[i], minute, curve);
    const auto& proposals = proposals_[i / kHolds.size()];
    follow(controllers_[i], *std::max_element(proposals.end() - kHolds[i % kHolds.size()], proposals.end()));
  }
  expected_missed_ = kKeptOfDay * expected_missed_ + controllers_[chosen_].missed - kKeptOfDay * before;
  if (minutes_ % kChooseEvery == 0) choose();
}

// The smallest fleet that reaches the goal on the present load, and misses no more than allowed over the futures.
std::uint32_t Backtest::proposal(double allowance, double base, std::span<const double> futures, const LoadCurve& curve,
                                 const FleetSize& fleet) const {
  const auto suffices = [&](std::uint32_t replicas) {
    if (curve.missed_share(base / replicas) > 1.0 - options_.goal) return false;
    double missed = 0.0;
    for (const double multiple : futures) missed += curve.missed_share(multiple * base / replicas);
    return missed <= allowance * static_cast<double>(futures.size());
  };
  std::uint32_t short_of = std::max(1U, fleet.least) - 1, enough = std::max(1U, fleet.most);
  while (enough - short_of > 1) {
    const std::uint32_t middle = short_of + (enough - short_of) / 2;
    (suffices(middle) ? enough : short_of) = middle;
  }
  return enough;
}

void Backtest::serve(Tried& tried, const LoadMinute& minute, const LoadCurve& curve) const {
  if (lag_ > 0) {
    tried.ready += tried.orders.front();
    tried.orders.pop_front();
    tried.orders.push_back(0);
  }
  const double carried = tried.ready * curve.capacity();
  tried.queue = std::max(0.0, tried.queue + core::to_seconds(core::kMinute) * (minute.mean - carried));
  const bool late = tried.queue > kLateAfter_s * carried;
  const double share = late ? 1.0 : curve.missed_share(minute.peak / std::max(1U, tried.ready));
  tried.missed = kKeptOfDay * tried.missed + share * minute.requests;
  tried.replicas = kKeptOfDay * tried.replicas + tried.target;
}

void Backtest::follow(Tried& tried, std::uint32_t target) const {
  if (target > tried.target) {
    (lag_ > 0 ? tried.orders.back() : tried.ready) += target - tried.target;
    tried.target = target;
    return;
  }
  std::uint32_t removed = std::min(tried.target - target, std::max(1U, tried.target / kShrinkShare));
  tried.target -= removed;
  for (auto order = tried.orders.rbegin(); order != tried.orders.rend(); ++order) {
    const std::uint32_t cancelled = std::min(*order, removed);
    *order -= cancelled;
    removed -= cancelled;
  }
  tried.ready -= removed;
}

double Backtest::budget_left() const {
  return observed_allowed_ > 0.0 ? 1.0 - observed_missed_ / observed_allowed_ : 1.0;
}

void Backtest::choose() {
  const double budget = (1.0 - options_.goal) * requests_;
  const double overspent = (observed_missed_ - observed_allowed_) / std::max(budget, 1e-9);
  const double aim = kCareful * budget * std::clamp(1.0 - overspent, kCareMost, kCareLeast);
  // The real fleet acts more often than once a minute, and its engines are not the curve.
  const double doubt =
      (1.0 - options_.goal) * requests_ * kFirstMinutes / (kFirstMinutes + static_cast<double>(minutes_));
  const double bias =
      std::clamp((observed_missed_ + doubt) / std::max(expected_missed_ + doubt, 1e-9), kBiasLeast, kBiasMost);
  std::size_t best = controllers_.size(), safest = 0;
  double least = 0.0;
  for (std::size_t i = 0; i < controllers_.size(); ++i) {
    const Tried& tried = controllers_[i];
    if (tried.missed < controllers_[safest].missed) safest = i;
    if (bias * tried.missed > aim) continue;
    const double replicas = tried.replicas * (i == chosen_ ? kSame : 1.0);
    if (best < controllers_.size() && replicas >= least) continue;
    best = i;
    least = replicas;
  }
  chosen_ = best < controllers_.size() ? best : safest;
}

void Backtest::archive(core::StateArchive& state) {
  state("backtest", requests_, observed_missed_, observed_allowed_, expected_missed_, minutes_, chosen_);
  state.elements(controllers_);
  state.elements(proposals_);
  if (!state.reading()) return;
  const auto bad = [&](const Tried& tried) { return minutes_ > 0 && tried.orders.size() != lag_; };
  if (chosen_ >= controllers_.size() || std::any_of(controllers_.begin(), controllers_.end(), bad) ||
      std::any_of(proposals_.begin(), proposals_.end(),
                  [&](const auto& proposals) { return minutes_ > 0 && proposals.size() != kHolds.back(); }))
    state.fail("is of another planner");
}

}  // namespace penstock::planner
