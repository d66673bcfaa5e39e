#include "planner/penstock/penstock_planner.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "planner/bounds.h"
#include "planner/diagnosis.h"
#include "planner/penstock/backlog.h"
#include "planner/penstock/deferred_traffic.h"
#include "planner/penstock/early_signs.h"
#include "planner/penstock/fleet_activity.h"
#include "planner/penstock/fleet_guardrails.h"
#include "planner/penstock/fleet_plans.h"
#include "planner/penstock/load_rule.h"
#include "planner/penstock/memory_evidence.h"
#include "planner/penstock/plan_evidence.h"
#include "planner/penstock/role_switch.h"
#include "planner/penstock/scale_to_zero.h"
#include "planner/penstock/speed_evidence.h"
#include "planner/samples.h"
#include "signals/sanitize.h"

namespace penstock::planner {
namespace {

class PenstockPlanner final : public Policy {
 public:
  PenstockPlanner(std::shared_ptr<FleetTrials> trials, const signals::SloPolicy& slo, const PlannerOptions& options)
      : slo_(slo),
        options_(options),
        sanitizer_({.interval = options.interval}),
        deferred_(options.memory.length / 2),
        diagnoser_(slo),
        plans_(std::move(trials), slo, options),
        scale_to_zero_(options.scale_to_zero_after),
        schedule_(options.schedule),
        guardrails_(options.guardrails) {}

  [[nodiscard]] std::string_view name() const override { return "penstock"; }
  [[nodiscard]] core::Duration interval() const override { return options_.interval; }
  [[nodiscard]] core::Duration memory() const override { return 3 * options_.memory.length / 2; }
  [[nodiscard]] bool wants_segments() const override { return true; }

  [[nodiscard]] Decision decide(const signals::Observation& observation) override {
    signals::Observation seen = observation;
    const signals::Findings& found = sanitizer_.clean(seen);
    Diagnosis diagnosis = diagnoser_.observe(seen);  // It names what has no recent telemetry.
    forget_old_samples(seen);
    const signals::Observation& spread = deferred_.spread(seen);
    plans_.learn(seen, spread);
    scale_to_zero_.observe(seen);
    if (plans_.enabled() && found.clock == signals::ClockState::kSteady) plans_.make(spread);

    Decision decision;
    decision.phase = options_.phase;
    decision.forecast = plans_.outlook().expected();
    std::vector<PoolDecision> proposals = propose_all(seen, options_.phase);
    std::vector<std::uint32_t> needed = needed_for_switches(seen, proposals);
    if (options_.phase > RolloutPhase::kGuardrails) schedule_.apply(seen, proposals);
    keep_scheduled(proposals, needed);
    decision.pools = options_.phase == RolloutPhase::kObserve
                         ? proposals
                         : guardrails_.apply(seen, proposals, found.clock, std::move(needed));
    forget_given_plans(observation.now, decision);
    // Guardrails keep some replicas awake for longer.
    for (std::size_t i = 0; i < proposals.size(); ++i) {
      const std::uint32_t loaded = proposals[i].target + proposals[i].asleep;
      decision.pools[i].asleep = loaded - std::min(loaded, decision.pools[i].target);
    }
    add_diagnosis(seen, std::move(diagnosis), decision);
    add_next_phase(seen, decision);
    if (const LoopPlan* plan = plans_.leading_plan(observation.now)) decision.candidates = plan->tried;
    return decision;
  }

  void revise(std::span<const std::uint32_t> targets) override { guardrails_.revise(targets); }

  void archive(core::StateArchive& state) override {
    state("penstock", sanitizer_, deferred_, diagnoser_, plans_, scale_to_zero_, schedule_, guardrails_);
  }

 private:
  // A risk that is acted on has a cause, even if the SLO is not missed yet.
  void add_diagnosis(const signals::Observation& observation, Diagnosis diagnosis, Decision& decision) const {
    const bool at_risk = std::any_of(decision.pools.begin(), decision.pools.end(),
                                     [](const PoolDecision& pool) { return pool.reason == Reason::kSloAtRisk; });
    if (at_risk && diagnosis.findings.empty())
      if (auto sign = early_sign(observation, slo_)) diagnosis.findings.push_back(*std::move(sign));
    decision.cause = diagnosis.cause();
    decision.diagnosis = sentence(diagnosis);
  }

  // The replicas that each pool needs beside a partner that may take the others: its proposal, with the plans of the
  // last minute only. Lowers the proposals to the largest recent sum of plans. Empty if no replica changes its role.
  [[nodiscard]] std::vector<std::uint32_t> needed_for_switches(const signals::Observation& observation,
                                                               std::vector<PoolDecision>& proposals) const {
    if (!exchanges_replicas(observation)) return {};
    std::vector<std::uint32_t> needed;
    for (const PoolDecision& proposal : propose_all(observation, options_.phase, true))
      needed.push_back(proposal.target);
    const std::uint32_t sum = plans_.held_sum(observation.now, options_.phase);
    if (sum > 0) share_hold(observation, needed, plans_.correction().corrected(sum), proposals);
    return needed;
  }
  // What a pool has given away it does not hold any more.
  void forget_given_plans(core::Instant now, const Decision& decision) {
    for (std::size_t i = 0; i < guardrails_.given().size(); ++i)
      if (guardrails_.given()[i] > 0)
        plans_.forget_held(now, i, plans_.correction().planned({decision.pools[i].target}).front());
  }

  // ---- proposals ----------------------------------------------------------------------------------------------------

  // `for_switches`: without the hold, for what a pool can give to its partner.
  [[nodiscard]] std::vector<PoolDecision> propose_all(const signals::Observation& observation, RolloutPhase phase,
                                                      bool for_switches = false) const {
    std::vector<PoolDecision> proposals;
    for (std::size_t i = 0; i < observation.pools.size(); ++i) {
      proposals.push_back(propose(observation, i, phase, for_switches));
      if (phase > RolloutPhase::kGuardrails && scale_to_zero_.needs_first(i)) start_first(observation, i, proposals[i]);
    }
    for (std::size_t i = 0; i < proposals.size(); ++i)
      add_memory_evidence(observation.pools[i], observation.now, proposals[i]);
    const bool in_series = observation.pools.front().role != signals::Role::kAggregated;
    if (phase == RolloutPhase::kLoad && proposals.size() > 1 && in_series) keep_ratio(proposals);
    return proposals;
  }

  void start_first(const signals::Observation& observation, std::size_t index, PoolDecision& proposal) const {
    proposal.target = std::max(1U, proposal.target);
    proposal.reason = Reason::kFirstReplica;
    proposal.evidence.push_back(
        {"waiting", static_cast<double>(observation.pools[index].unrouted_requests), "requests"});
  }

  [[nodiscard]] PoolDecision propose(const signals::Observation& observation, std::size_t index, RolloutPhase phase,
                                     bool for_switches) const {
    const signals::PoolObservation& pool = observation.pools[index];
    PoolDecision hold;
    hold.current = hold.target = pool.target_replicas;
    hold.asleep = pool.asleep_target;
    hold.reason = Reason::kObserveOnly;
    if (phase == RolloutPhase::kObserve) return hold;
    hold.target = bound(pool.target_replicas, bounds_of(pool)).replicas;
    if (phase == RolloutPhase::kGuardrails) return hold;
    if (scale_to_zero_.needs_none(index)) {
      hold.target = 0;
      hold.reason = Reason::kScaledToZero;
      hold.asleep = 0;
      hold.evidence.push_back({"idle", core::to_seconds(scale_to_zero_.idle_time(index)), "s"});
      return hold;
    }
    if (plans_.is_idle(observation.now)) {
      hold.target = std::max(1U, pool.min_replicas);
      hold.reason = Reason::kIdle;
      hold.asleep = 0;
      return hold;
    }
    if (!plans_.enabled()) {
      LoadRuleOptions rule = throughput_rule();
      rule.kv_target = options_.utilisation;
      if (options_.target == OptimizationTarget::kLatency) rule = latency_rule();
      return by_load(pool, rule,
                     index < plans_.speeds().size() ? plans_.speeds()[index].engine().max_sequences : std::nullopt);
    }
    return by_plans(observation, index, phase, for_switches);
  }

  [[nodiscard]] PoolDecision by_plans(const signals::Observation& observation, std::size_t index, RolloutPhase phase,
                                      bool for_switches) const {
    const signals::PoolObservation& pool = observation.pools[index];
    PoolDecision proposal;
    proposal.current = proposal.target = pool.target_replicas;
    proposal.asleep = pool.asleep_target;
    proposal.reason = Reason::kInsufficientData;
    const LoopPlan *floor = plans_.floor_plan(observation.now, phase), *load = plans_.load_plan();
    const LoopPlan* chosen = floor;
    const bool by_load = phase >= RolloutPhase::kLoad && FleetPlans::is_usable(load);
    if (by_load && (chosen == nullptr || load->fleet[index] > chosen->fleet[index])) chosen = load;
    if (chosen != nullptr) {
      proposal.reason = by_load && plans_.in_trouble(observation) ? Reason::kSloAtRisk : Reason::kCheapestThatKeepsSlo;
      proposal.target = chosen->fleet[index];
      add_plan_evidence(*chosen, index, proposal);
      if (floor != nullptr)
        proposal.evidence.push_back({"floor", static_cast<double>(floor->fleet[index]), "replicas"});
      if (load != nullptr)
        proposal.evidence.push_back({"load_based_target", static_cast<double>(load->fleet[index]), "replicas"});
    }
    const std::uint32_t held = phase >= RolloutPhase::kLoad
                                   ? plans_.held_plan(observation.now, index, phase, pool.can_sleep(), for_switches)
                                   : 0;
    if (proposal.reason == Reason::kSloAtRisk) clear_backlog(pool, plans_.lags().soonest, proposal);
    const std::uint32_t before_hold = proposal.target;
    if (chosen != nullptr && held > proposal.target) {
      proposal.target = held;
      proposal.evidence.push_back({"largest_recent_plan", static_cast<double>(held), "replicas"});
    }
    serve_by_formula(observation, index, proposal);
    if (phase >= RolloutPhase::kLoad && proposal.reason != Reason::kInsufficientData) {
      std::uint32_t corrected = plans_.correction().corrected(proposal.target);
      if (corrected > proposal.target && plans_.burning()) proposal.reason = Reason::kSloBurns;
      if (!plans_.burning() && proposal.reason != Reason::kFormula)
        corrected = std::min(corrected, most_held(pool, before_hold));
      proposal.target = corrected;
      proposal.evidence.push_back({"load_factor", plans_.correction().factor(), "times"});
    }
    if (chosen != nullptr && proposal.reason != Reason::kFormula)
      leave_asleep(observation, *chosen, index, phase, proposal);
    if (phase >= RolloutPhase::kLoad) {
      proposal.evidence.push_back({"hold", core::to_seconds(plans_.hold(phase)), "s"});
      proposal.evidence.push_back({"budget_left", plans_.load_outlook().budget_left(), "share"});
      if (const Backtest* backtest = plans_.load_outlook().backtest()) {
        proposal.evidence.push_back({"controller_misses", backtest->expected_misses(), "share"});
        proposal.evidence.push_back({"controller_misses_allowed", backtest->aim(), "share"});
      }
    }
    proposal.evidence.push_back({"burn_rate", plans_.burn_rate(), "times"});
    add_trial_error(plans_.trial_error(), proposal);
    if (index < plans_.speeds().size()) add_speed_evidence(plans_.speeds()[index], pool, slo_.target, proposal);
    return proposal;
  }

  // A hold keeps loaded replicas. It does not bring back those of earlier plans, such as when it has become longer.
  [[nodiscard]] std::uint32_t most_held(const signals::PoolObservation& pool, std::uint32_t plan) const {
    return std::max(pool.target_replicas + pool.asleep_target, plans_.correction().corrected(plan));
  }

  // The proposal is the fleet as if none could sleep. Only what may be needed before a replica wakes up serves.
  void leave_asleep(const signals::Observation& observation, const LoopPlan& plan, std::size_t index,
                    RolloutPhase phase, PoolDecision& proposal) const {
    proposal.asleep = 0;
    if (!observation.pools[index].can_sleep() || phase < RolloutPhase::kLoad) return;
    const double share = plans_.in_trouble(observation) ? 1.0 : plans_.load_outlook().awake_share(phase);
    const auto awake = static_cast<std::uint32_t>(std::ceil(share * plan.fleet[index] - 1e-9));
    const std::uint32_t loaded = proposal.target;
    proposal.target = std::min(loaded, plans_.correction().corrected(awake));
    proposal.asleep = loaded - proposal.target;
    proposal.evidence.push_back({"loaded", static_cast<double>(loaded), "replicas"});
    proposal.evidence.push_back({"awake_share", share, "share"});
  }

  // While searches are late, the larger of the plan and the token formula.
  void serve_by_formula(const signals::Observation& observation, std::size_t index, PoolDecision& proposal) const {
    if (!plans_.are_late(observation.now) || index >= plans_.speeds().size()) return;
    const double growth = plans_.outlook().growth(arrival_rate(observation));
    const auto formula =
        plans_.speeds()[index].by_formula(observation.pools[index], slo_.target, growth, options_.utilisation);
    const bool planned = proposal.reason != Reason::kInsufficientData;
    if (!formula || formula->replicas < proposal.target || (planned && formula->replicas == proposal.target)) return;
    proposal.target = formula->replicas;
    proposal.reason = Reason::kFormula;
    proposal.evidence = {{"by_input", static_cast<double>(formula->by_input), "replicas"},
                         {"by_output", static_cast<double>(formula->by_output), "replicas"},
                         {"utilisation", formula->utilisation, "share"}};
  }

  // Scales all pools by the factor of the pool with the highest need.
  static void keep_ratio(std::vector<PoolDecision>& proposals) {
    double factor = 0.0;
    for (const PoolDecision& proposal : proposals)
      factor = std::max(factor, static_cast<double>(proposal.target) / std::max(1U, proposal.current));
    for (PoolDecision& proposal : proposals)
      proposal.target = static_cast<std::uint32_t>(std::ceil(std::max(1U, proposal.current) * factor - 1e-9));
  }

  void add_next_phase(const signals::Observation& observation, Decision& decision) const {
    const auto next = decision::next_phase(options_.phase);
    if (!next) return;
    const std::vector<PoolDecision> proposals_then = propose_all(observation, *next);
    for (std::size_t i = 0; i < proposals_then.size(); ++i) {
      double proposal = proposals_then[i].target;
      // Without a plan of the last phase: its fleets are the current ones with another controller.
      if (*next == RolloutPhase::kCost && !options_.controller)
        proposal = std::ceil(proposal * plans_.load_outlook().savings() - 1e-9);
      decision.pools[i].next_phase_target =
          bound(static_cast<std::uint32_t>(proposal), bounds_of(observation.pools[i])).replicas;
    }
  }

  signals::SloPolicy slo_;
  PlannerOptions options_;
  signals::Sanitizer sanitizer_;
  DeferredTraffic deferred_;
  Diagnoser diagnoser_;
  FleetPlans plans_;
  ScaleToZero scale_to_zero_;
  ScheduleFloor schedule_;
  FleetGuardrails guardrails_;
};

}  // namespace

std::unique_ptr<Policy> make_penstock_planner(std::shared_ptr<FleetTrials> trials, const signals::SloPolicy& slo,
                                              const PlannerOptions& options) {
  return std::make_unique<PenstockPlanner>(std::move(trials), slo, options);
}

}  // namespace penstock::planner
