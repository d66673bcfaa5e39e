#include "planner/penstock/penstock_planner.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "planner/bounds.h"
#include "planner/diagnosis.h"
#include "planner/penstock/backlog.h"
#include "planner/penstock/deferred_traffic.h"
#include "planner/penstock/early_signs.h"
#include "planner/penstock/fleet_activity.h"
#include "planner/penstock/fleet_guardrails.h"
#include "planner/penstock/load_outlook.h"
#include "planner/penstock/load_rule.h"
#include "planner/penstock/memory_evidence.h"
#include "planner/penstock/plan_evidence.h"
#include "planner/penstock/role_switch.h"
#include "planner/penstock/speed_evidence.h"
#include "planner/penstock/traffic_step.h"
#include "planner/windows.h"
#include "signals/sanitize.h"

namespace penstock::planner {

namespace {
// Upper bound of the times in a restored state.
constexpr core::Duration kRestoredLagMost = std::chrono::hours{24};
// Without requests for this long, the fleet counts as idle and shrinks to its minimum.
constexpr core::Duration kIdleAfter = std::chrono::minutes{5};
// Interval between checks of a burning SLO, long enough for the effect of the last raise to show.
constexpr core::Duration kRaiseStep = std::chrono::minutes{1};
// Factor of futures while a pool's engines are simulated by a default profile that no measurement has corrected.
constexpr double kGuessedEngine = 1.25;
// Below this attainment of the best fleet, trials are not used, because the model or the SLO is wrong.
constexpr double kUsable = 0.2;
// A plan of this age is more precise than the token formula.
constexpr core::Duration kPlanLasts = std::chrono::minutes{5};
constexpr core::Duration kRecentPlans = std::chrono::hours{4};  // The longest hold.
constexpr std::uint64_t kPoolsMost = 64;                        // Limit for a restored state.

class PenstockPlanner final : public Policy {
 public:
  PenstockPlanner(std::shared_ptr<FleetTrials> trials, const signals::SloPolicy& slo, const PlannerOptions& options)
      : trials_(std::move(trials)),
        slo_(slo),
        options_(options),
        sanitizer_({.interval = options.interval}),
        deferred_(options.memory.length / 2),
        diagnoser_(slo.target),
        burn_(slo, options.burn_rate),
        memory_(std::make_shared<TrafficMemory>(trials_, options.memory)),
        floor_(memory_, options.throughput_loop),
        load_(memory_, options.load_loop),
        schedule_(options.schedule),
        guardrails_(options.guardrails) {
    for (const PoolProfile& profile : options.profiles) speeds_.emplace_back(profile);
    for (std::size_t i = 0; i <= slo.segments.size(); ++i) goals_.push_back(slo.goal_at(i));
    memory_->listen(
        [this](core::Instant from, core::Instant to, const Fleet& fleet, double load, const TrialOutcome& outcome) {
          load_outlook_->observe_trial(from, to, fleet, load, outcome, best());
        });
  }

  [[nodiscard]] std::string_view name() const override { return "penstock"; }
  [[nodiscard]] core::Duration interval() const override { return options_.interval; }
  [[nodiscard]] core::Duration memory() const override { return 3 * options_.memory.length / 2; }
  [[nodiscard]] bool wants_segments() const override { return true; }

  [[nodiscard]] Decision decide(const signals::Observation& observation) override {
    signals::Observation seen = observation;
    const signals::Findings& found = sanitizer_.clean(seen);
    if (!outlook_) begin(seen);
    const signals::Observation& spread = deferred_.spread(seen);
    learn(seen, spread);
    if (plans() && found.clock == signals::ClockState::kSteady) make_plans(spread);

    Decision decision;
    decision.phase = options_.phase;
    decision.forecast = outlook_->expected();
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
    diagnose(seen, decision);
    say_next_phase(seen, decision);
    if (const LoopPlan* plan = leading_plan(observation.now)) decision.candidates = plan->tried;
    return decision;
  }

  void revise(std::span<const std::uint32_t> targets) override { guardrails_.revise(targets); }

  void archive(core::StateArchive& state) override {
    bool begun = outlook_.has_value();
    state("penstock", begun, lags_);
    if (state.reading()) {
      outlook_.reset();
      for (core::Duration* lag : {&lags_.start_up, &lags_.soonest})
        *lag = std::clamp(*lag, core::Duration{}, kRestoredLagMost);
      if (begun) begin(lags_);
    }
    if (begun) {
      outlook_->archive(state);
      load_outlook_->archive(state);
    }
    state("parts", sanitizer_, diagnoser_, burn_, *memory_, floor_, load_, trial_error_, correction_, schedule_,
          guardrails_);
    state.elements(speeds_);
    std::uint64_t pools = recent_plans_.size();
    state("recent_plans", pools);
    if (state.reading()) recent_plans_.assign(std::min<std::uint64_t>(pools, kPoolsMost), TimedValues{kRecentPlans});
    for (TimedValues& plans : recent_plans_) state.values_of(plans);
    state("raise", waiting_, raised_at_, raise_from_, busy_at_);
    if (state.reading() && !state.failed() && trials_ && !speeds_.empty()) correct_trials();
  }

 private:
  [[nodiscard]] bool plans() const { return trials_ && options_.target == OptimizationTarget::kSla; }
  [[nodiscard]] bool has_floor() const { return options_.throughput_loop.interval > core::Duration{}; }
  // Beside the load loop, a floor is of use only where a forecast that has proved accurate expects more traffic than
  // nearly all futures.
  [[nodiscard]] bool uses_floor(RolloutPhase phase) const {
    if (!has_floor()) return false;
    return phase < RolloutPhase::kLoad || !has_load() || expects_more_;
  }
  // The plan of the throughput loop; null if it is not used or from an earlier use.
  [[nodiscard]] const LoopPlan* floor_plan(core::Instant now, RolloutPhase phase) const {
    const auto& plan = floor_.plan();
    if (!uses_floor(phase) || !usable(plan)) return nullptr;
    return plan->made + 2 * options_.throughput_loop.interval < now && floor_.waiting_since() ? nullptr : &*plan;
  }
  [[nodiscard]] bool has_load() const { return options_.load_loop.interval > core::Duration{}; }

  void begin(const signals::Observation& observation) {
    busy_at_ = observation.now;  // Nothing is known of the time before.
    begin(lags_of(observation));
    outlook_->warm_up(options_.history);
  }

  void begin(const CapacityLags& lags) {
    lags_ = lags;
    outlook_.emplace(options_.outlook, options_.memory.length, lags.start_up + options_.throughput_loop.interval);
    load_outlook_.emplace(slo_.goal, lags, options_.controller);
  }

  // `spread`: the same with the arrivals of deferred requests spread over their windows.
  void learn(const signals::Observation& observation, const signals::Observation& spread) {
    outlook_->observe(spread);
    burn_.observe(observation, best());
    const auto& plan = load_.plan();
    load_outlook_->observe(spread, plan ? plan->used : core::Duration{}, burn_);
    if (signals::entry_traffic(observation).last_minute.arrivals > 0 || has_work(observation))
      busy_at_ = observation.now;
    bool changed = false;
    for (std::size_t i = 0; i < std::min(speeds_.size(), observation.pools.size()); ++i)
      changed = speeds_[i].observe(observation.pools[i], observation.now) || changed;
    if (!changed || !trials_) return;
    correct_trials();
    memory_->forget_outcomes();
  }

  // Attainment of a fleet of any size, as far as trials know.
  [[nodiscard]] double best() const {
    const auto& plan = load_.plan() ? load_.plan() : floor_.plan();
    return plan ? plan->best : 1.0;
  }

  void correct_trials() {
    std::vector<EngineCorrection> engines;
    for (const ReplicaSpeed& speed : speeds_) engines.push_back(speed.engine());
    trials_->correct(engines);
  }

  [[nodiscard]] bool in_trouble(const signals::Observation& observation) const {
    return early_sign(observation, slo_).has_value();
  }

  // A risk that is acted on has a cause, even if the SLO is not missed yet.
  void diagnose(const signals::Observation& observation, Decision& decision) {
    Diagnosis diagnosis = diagnoser_.observe(observation);
    const bool at_risk = std::any_of(decision.pools.begin(), decision.pools.end(),
                                     [](const PoolDecision& pool) { return pool.reason == Reason::kSloAtRisk; });
    if (at_risk && diagnosis.findings.empty())
      if (auto sign = early_sign(observation, slo_)) diagnosis.findings.push_back(*std::move(sign));
    decision.cause = diagnosis.cause();
    decision.diagnosis = sentence(diagnosis);
  }

  // ---- plans --------------------------------------------------------------------------------------------------------

  [[nodiscard]] std::vector<double> futures() const {
    const bool guesses =
        std::any_of(speeds_.begin(), speeds_.end(), [](const ReplicaSpeed& speed) { return speed.is_uncalibrated(); });
    return load_outlook_->futures(options_.uncertainty * (guesses ? kGuessedEngine : 1.0));
  }
  [[nodiscard]] double misses() const { return load_outlook_->misses(options_.phase); }

  void make_plans(const signals::Observation& observation) {
    memory_->begin_tick(observation);
    const Fleet current = correction_.planned(targets_of(observation));
    if (has_load())
      load_.tick(
          observation, current,
          [&](double) {
            return PlanGoal{goals_, 1.0, futures(), load_outlook_->controller(options_.phase).allowance, misses()};
          },
          in_trouble(observation), traffic_step(observation.recent, observation.now));
    expects_more_ = load_.plan() && outlook_->growth(load_.plan()->rate) > load_outlook_->largest_future();
    if (uses_floor(options_.phase))
      floor_.tick(observation, current, [&](double rate) { return PlanGoal{goals_, outlook_->growth(rate)}; });
    note_plan(observation);
    check_trials(observation);
    raise_plans(observation);
  }

  void note_plan(const signals::Observation& observation) {
    const auto& plan = load_.plan();
    if (!plan || plan->made != observation.now) return;
    recent_plans_.resize(plan->fleet.size() + 1, TimedValues{kRecentPlans});
    for (std::size_t i = 0; i < plan->fleet.size(); ++i) recent_plans_[i].add(observation.now, plan->fleet[i]);
    recent_plans_.back().add(observation.now, static_cast<double>(replicas_of(plan->fleet)));
  }

  // Holds are learned for the default stabilisation window and scale with it.
  [[nodiscard]] core::Duration hold(RolloutPhase phase) const {
    const double part =
        core::to_seconds(options_.guardrails.stabilisation) / core::to_seconds(GuardrailOptions{}.stabilisation);
    return core::from_seconds(part * core::to_seconds(load_outlook_->controller(phase).hold));
  }
  // The largest plan of that time. Guardrails hold replicas for their window already, but not those asleep.
  [[nodiscard]] std::uint32_t held_plan(core::Instant now, std::size_t index, RolloutPhase phase, bool sleeps = false,
                                        bool for_switches = false) const {
    const core::Duration longer = for_switches
                                      ? options_.guardrails.shrink_step
                                      : hold(phase) - (sleeps ? core::Duration{} : options_.guardrails.stabilisation);
    if (index >= recent_plans_.size() || longer <= core::Duration{}) return 0;
    return static_cast<std::uint32_t>(recent_plans_[index].max(now, longer).value_or(0.0));
  }

  // The replicas that each pool needs beside a partner that may take the others: its proposal, with the plans of the
  // last minute only. Lowers the proposals to the largest recent sum of plans. Empty if no replica changes its role.
  [[nodiscard]] std::vector<std::uint32_t> needed_for_switches(const signals::Observation& observation,
                                                               std::vector<PoolDecision>& proposals) const {
    if (!exchanges_replicas(observation)) return {};
    std::vector<std::uint32_t> needed;
    for (const PoolDecision& proposal : propose_all(observation, options_.phase, true))
      needed.push_back(proposal.target);
    const std::uint32_t sum = held_plan(observation.now, proposals.size(), options_.phase);
    if (sum > 0) share_hold(observation, needed, correction_.corrected(sum), proposals);
    return needed;
  }
  // What a pool has given away it does not hold any more.
  void forget_given_plans(core::Instant now, const Decision& decision) {
    for (std::size_t i = 0; i < std::min(guardrails_.given().size(), recent_plans_.size()); ++i) {
      if (guardrails_.given()[i] == 0) continue;
      recent_plans_[i] = TimedValues{kRecentPlans};
      recent_plans_[i].add(now, decision.pools[i].target);
    }
  }

  void check_trials(const signals::Observation& observation) {
    const auto check = memory_->check(slo_, correction_.factor());
    if (!check) return;
    trial_error_.observe(*check);
    // What starts has not had an effect yet.
    const bool may_grow = observation.now >= raise_from_ && !replicas_start(observation);
    if (correction_.observe(*check, observation.now, may_grow)) wait_for_start(observation);
  }
  void wait_for_start(const signals::Observation& observation) {
    raise_from_ = observation.now + std::max(kRaiseStep, lags_of(observation).soonest);
  }

  // The SLO burns although the plans consider the fleet sufficient, and no check of a trial explains it: the correction
  // grows step by step until the burning stops.
  void raise_plans(const signals::Observation& observation) {
    const core::Duration passed = observation.now - raised_at_;
    if (passed < kRaiseStep) return;
    const std::uint64_t waiting = waiting_requests(observation), waited = std::exchange(waiting_, waiting);
    raised_at_ = observation.now;
    if (!burn_.burning(misses())) return correction_.decay();
    // A shrinking queue resolves soon, and starting replicas have not had an effect yet.
    if (!in_trouble(observation) || replicas_start(observation) || waiting < waited) return;
    if (observation.now < raise_from_) return;
    if (correction_.raise(observation.now)) wait_for_start(observation);
  }

  // If no fleet meets the SLO in the model, the model or the SLO is wrong; neither is a reason to shrink.
  [[nodiscard]] static bool usable(const std::optional<LoopPlan>& plan) { return plan && plan->best >= kUsable; }

  [[nodiscard]] const LoopPlan* leading_plan(core::Instant now) const {
    const auto size = [](const LoopPlan* plan) { return plan == nullptr ? 0 : replicas_of(plan->fleet); };
    const LoopPlan* floor = floor_plan(now, options_.phase);
    const LoopPlan* load = load_.plan() ? &*load_.plan() : nullptr;
    return size(load) > size(floor) ? load : floor;
  }

  // ---- proposals ----------------------------------------------------------------------------------------------------

  // `for_switches`: without the hold, for what a pool can give to its partner.
  [[nodiscard]] std::vector<PoolDecision> propose_all(const signals::Observation& observation, RolloutPhase phase,
                                                      bool for_switches = false) const {
    std::vector<PoolDecision> proposals;
    for (std::size_t i = 0; i < observation.pools.size(); ++i)
      proposals.push_back(propose(observation, i, phase, for_switches));
    for (std::size_t i = 0; i < proposals.size(); ++i)
      add_memory_evidence(observation.pools[i], observation.now, proposals[i]);
    const bool in_series = observation.pools.front().role != signals::Role::kAggregated;
    if (phase == RolloutPhase::kLoad && proposals.size() > 1 && in_series) keep_ratio(proposals);
    return proposals;
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
    if (observation.now > busy_at_ + kIdleAfter) {
      hold.target = std::max(1U, pool.min_replicas);
      hold.reason = Reason::kIdle;
      hold.asleep = 0;
      return hold;
    }
    if (!plans()) {
      LoadRuleOptions rule = throughput_rule();
      rule.kv_target = options_.utilisation;
      if (options_.target == OptimizationTarget::kLatency) rule = latency_rule();
      return by_load(pool, rule, index < speeds_.size() ? speeds_[index].engine().max_sequences : std::nullopt);
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
    const LoopPlan* floor = floor_plan(observation.now, phase);
    const LoopPlan* chosen = floor;
    bool by_load_loop = false;
    if (phase >= RolloutPhase::kLoad && usable(load_.plan()) &&
        (chosen == nullptr || load_.plan()->fleet[index] > chosen->fleet[index])) {
      chosen = &*load_.plan();
      by_load_loop = true;
    }
    if (chosen != nullptr) {
      proposal.reason = by_load_loop && in_trouble(observation) ? Reason::kSloAtRisk : Reason::kCheapestThatKeepsSlo;
      proposal.target = chosen->fleet[index];
      add_plan_evidence(*chosen, index, proposal);
      if (floor != nullptr)
        proposal.evidence.push_back({"floor", static_cast<double>(floor->fleet[index]), "replicas"});
      if (load_.plan())
        proposal.evidence.push_back({"load_based_target", static_cast<double>(load_.plan()->fleet[index]), "replicas"});
    }
    const std::uint32_t held =
        phase >= RolloutPhase::kLoad ? held_plan(observation.now, index, phase, pool.can_sleep(), for_switches) : 0;
    if (proposal.reason == Reason::kSloAtRisk) clear_backlog(pool, lags_.soonest, proposal);
    if (chosen != nullptr && held > proposal.target) {
      proposal.target = held;
      proposal.evidence.push_back({"largest_recent_plan", static_cast<double>(held), "replicas"});
    }
    serve_by_formula(observation, index, proposal);
    if (phase >= RolloutPhase::kLoad && proposal.reason != Reason::kInsufficientData) {
      const std::uint32_t corrected = correction_.corrected(proposal.target);
      if (corrected > proposal.target && burn_.burning(misses())) proposal.reason = Reason::kSloBurns;
      proposal.target = corrected;
      proposal.evidence.push_back({"load_factor", correction_.factor(), "times"});
    }
    if (chosen != nullptr && proposal.reason != Reason::kFormula)
      leave_asleep(observation, *chosen, index, phase, proposal);
    if (phase >= RolloutPhase::kLoad) {
      proposal.evidence.push_back({"hold", core::to_seconds(hold(phase)), "s"});
      proposal.evidence.push_back({"budget_left", load_outlook_->budget_left(), "share"});
    }
    proposal.evidence.push_back({"burn_rate", burn_.over_short_window(), "times"});
    add_trial_error(trial_error_, proposal);
    if (index < speeds_.size()) add_speed_evidence(speeds_[index], pool, slo_.target, proposal);
    return proposal;
  }

  // The proposal is the fleet as if none could sleep. Only what may be needed before a replica wakes up serves.
  void leave_asleep(const signals::Observation& observation, const LoopPlan& plan, std::size_t index,
                    RolloutPhase phase, PoolDecision& proposal) const {
    proposal.asleep = 0;
    if (!observation.pools[index].can_sleep() || phase < RolloutPhase::kLoad) return;
    const double share = in_trouble(observation) ? 1.0 : load_outlook_->awake_share(phase);
    const auto awake = static_cast<std::uint32_t>(std::ceil(share * plan.fleet[index] - 1e-9));
    const std::uint32_t loaded = proposal.target;
    proposal.target = std::min(loaded, correction_.corrected(awake));
    proposal.asleep = loaded - proposal.target;
    proposal.evidence.push_back({"loaded", static_cast<double>(loaded), "replicas"});
    proposal.evidence.push_back({"awake_share", share, "share"});
  }

  // A search that takes longer than its loop's interval is too late, unless the last plan is recent: that is more
  // precise than the formula.
  void serve_by_formula(const signals::Observation& observation, std::size_t index, PoolDecision& proposal) const {
    const auto overdue = [&](const PlanLoop& loop, core::Duration interval) {
      return loop.waiting_since() && observation.now > *loop.waiting_since() + interval;
    };
    const bool late =
        overdue(floor_, options_.throughput_loop.interval) || overdue(load_, 4 * options_.load_loop.interval);
    const auto& plan = has_load() ? load_.plan() : floor_.plan();
    if (!late || (plan && observation.now <= plan->made + kPlanLasts)) return;
    if (index >= speeds_.size()) return;
    const auto formula = speeds_[index].by_formula(observation.pools[index], slo_.target,
                                                   outlook_->growth(arrival_rate(observation)), options_.utilisation);
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

  void say_next_phase(const signals::Observation& observation, Decision& decision) const {
    const auto next = decision::next_phase(options_.phase);
    if (!next) return;
    const std::vector<PoolDecision> proposals_then = propose_all(observation, *next);
    for (std::size_t i = 0; i < proposals_then.size(); ++i) {
      double proposal = proposals_then[i].target;
      // Without a plan of the last phase: its fleets are the current ones with another controller.
      if (*next == RolloutPhase::kCost && !options_.controller)
        proposal = std::ceil(proposal * load_outlook_->savings() - 1e-9);
      decision.pools[i].next_phase_target =
          bound(static_cast<std::uint32_t>(proposal), bounds_of(observation.pools[i])).replicas;
    }
  }

  std::shared_ptr<FleetTrials> trials_;
  signals::SloPolicy slo_;
  PlannerOptions options_;
  std::vector<double> goals_;  // Indexed by objective.
  signals::Sanitizer sanitizer_;
  DeferredTraffic deferred_;
  Diagnoser diagnoser_;
  BurnRate burn_;
  std::shared_ptr<TrafficMemory> memory_;
  PlanLoop floor_, load_;
  TrialError trial_error_;
  LoadCorrection correction_;
  ScheduleFloor schedule_;
  FleetGuardrails guardrails_;
  std::vector<ReplicaSpeed> speeds_;       // Indexed by pool.
  std::vector<TimedValues> recent_plans_;  // Of the load loop, indexed by pool.
  std::optional<TrafficOutlook> outlook_;  // Created at the first observation, with the start-up time.
  std::optional<LoadOutlook> load_outlook_;
  CapacityLags lags_{};        // The times for which they were created.
  std::uint64_t waiting_ = 0;  // Queued requests at the last check.
  bool expects_more_ = false;  // A trusted forecast expects more than the futures contain; of the last planning tick.
  core::Instant raised_at_{}, raise_from_{}, busy_at_{};
};

}  // namespace

void set_memory(PlannerOptions& options, core::Duration length) {
  MemoryOptions& memory = options.memory;
  memory.length = length;
  memory.length_least = std::min(memory.length_least, length / 4);
  memory.slice_most = std::min(memory.slice_most, length / 4);
  memory.slice_least = std::min(memory.slice_least, length / 8);
  for (PlanLoopOptions* loop : {&options.throughput_loop, &options.load_loop}) {
    loop->look_back = std::min(loop->look_back, length / 4);
    loop->urgent_memory = std::min(loop->urgent_memory, length);
  }
}

std::unique_ptr<Policy> make_penstock_planner(std::shared_ptr<FleetTrials> trials, const signals::SloPolicy& slo,
                                              const PlannerOptions& options) {
  return std::make_unique<PenstockPlanner>(std::move(trials), slo, options);
}

}  // namespace penstock::planner
