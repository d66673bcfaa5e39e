#include "planner/penstock/load_outlook.h"

#include <algorithm>

namespace penstock::planner {
namespace {

constexpr core::Duration kUsedLeast = std::chrono::minutes{1}, kUsedMost = std::chrono::minutes{20};
constexpr std::uint32_t kReplicasMost = 4096;

FleetSize size_of(const signals::Observation& observation) {
  FleetSize size{0, 0, 0};
  for (const signals::PoolObservation& pool : observation.pools) {
    size.replicas += std::max(1U, pool.target_replicas);
    size.least += std::max(1U, pool.min_replicas);
    size.most += std::max(1U, pool.max_replicas);
  }
  return size;
}

}  // namespace

void LoadOutlook::observe(const signals::Observation& observation, core::Duration used, double uncertainty,
                          RolloutPhase phase, BurnRate& burn) {
  const auto minute = history_.observe(observation.now, signals::entry_traffic(observation),
                                       signals::exit_traffic(observation).output_tokens_total);
  if (!minute) return;
  base_ = history_.peak(observation.now - std::clamp(used, kUsedLeast, kUsedMost), observation.now);
  const double usual = history_.peak(observation.now - kUsedMost, observation.now);
  futures_.observe(minute->peak, base_, usual);
  soon_.observe(minute->peak, base_, usual);
  curve_.age();
  const std::vector<BudgetUse> uses = burn.take_uses();
  saved_.observe(uses);
  BudgetUse all;
  for (const BudgetUse& use : uses) all += use;
  const std::vector<double> multiples = futures(uncertainty);
  const PlannedLoad planned{base_, multiples, misses(RolloutPhase::kCost)};
  backtest_.observe(*minute, planned, curve_, all, size_of(observation), !fixed_ && phase == RolloutPhase::kCost);
}

void LoadOutlook::observe_trial(core::Instant from, core::Instant to, const Fleet& fleet, double load,
                                const TrialOutcome& outcome, double best) {
  const auto replicas = static_cast<double>(std::max<std::uint64_t>(1, replicas_of(fleet)));
  curve_.add(load * history_.peak(from, to) / replicas, outcome.all.requests,
             best * outcome.all.requests - outcome.all.met);
}

void LoadOutlook::change_lags(const CapacityLags& lags) {
  futures_ = Futures{lags.start_up};
  soon_ = Futures{lags.soonest};
  backtest_ = Backtest{{.goal = goal_, .lag = lags.start_up}};
}

void LoadOutlook::forget_misses(const CapacityLags& lags) {
  curve_ = {};
  saved_ = {};
  backtest_ = Backtest{{.goal = goal_, .lag = lags.start_up}};
}

std::vector<double> LoadOutlook::futures(double uncertainty) const {
  std::vector<double> multiples = futures_.multiples();
  for (double& multiple : multiples) multiple *= uncertainty;
  return multiples;
}

Controller LoadOutlook::controller(RolloutPhase phase) const {
  if (fixed_) return *fixed_;
  const Controller &first = backtest_.first(), &chosen = backtest_.chosen();
  if (phase == RolloutPhase::kCost) return chosen;
  return {std::min(first.allowance, chosen.allowance), std::max(first.hold, chosen.hold)};
}

double LoadOutlook::misses(RolloutPhase phase) const {
  return fixed_ || phase < RolloutPhase::kCost ? 1.0 : saved_.misses();
}

double LoadOutlook::awake_share(RolloutPhase phase) const {
  if (!curve_.known() || !(base_ > 0.0)) return 1.0;
  const double allowance = controller(phase).allowance;
  const FleetSize any{.replicas = 1, .least = 1, .most = kReplicasMost};
  const double loaded = fleet_for(base_, futures_.multiples(), allowance, goal_, curve_, any);
  return std::min(1.0, fleet_for(base_, soon_.multiples(), allowance, goal_, curve_, any) / loaded);
}

}  // namespace penstock::planner
