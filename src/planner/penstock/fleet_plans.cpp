#include "planner/penstock/fleet_plans.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "planner/penstock/early_signs.h"
#include "planner/penstock/fleet_activity.h"
#include "planner/penstock/traffic_step.h"

namespace penstock::planner {
namespace {

// Upper bound of the times in a restored state.
constexpr core::Duration kRestoredLagMost = std::chrono::hours{24};
constexpr double kLagChange = 0.25;  // A smaller relative change of the start-up time changes no plan.
// Without requests for this long, the fleet counts as idle and shrinks to its minimum.
constexpr core::Duration kIdleAfter = std::chrono::minutes{5};
// Interval between checks of a burning SLO, long enough for the effect of the last raise to show.
constexpr core::Duration kRaiseStep = std::chrono::minutes{1};
// Factor of futures while a pool's engines are simulated by a default profile that no measurement has corrected.
constexpr double kGuessedEngine = 1.25;
// Below this attainment of the best fleet, trials are not used.
constexpr double kUsable = 0.2;
// A plan of this age is more precise than the token formula.
constexpr core::Duration kPlanLasts = std::chrono::minutes{5};
constexpr core::Duration kRecentPlans = std::chrono::hours{4};  // The longest hold.
constexpr std::uint64_t kPoolsMost = 64;                        // Limit for a restored state.

// Two steps whose times tell one engine from another.
constexpr std::uint32_t kPromptTokens = 2048, kSequences = 32, kContextTokens = 1000;

engine::StepShape prompt_step() {
  engine::StepShape shape;
  shape.prefill_requests = 1;
  shape.prefill_new_tokens = shape.active_kv_tokens = shape.total_kv_tokens = kPromptTokens;
  shape.prefill_attention_pairs = 0.5 * kPromptTokens * (kPromptTokens + 1.0);
  return shape;
}

engine::StepShape decode_step() {
  engine::StepShape shape;
  shape.decode_sequences = kSequences;
  shape.decode_context_tokens = shape.active_kv_tokens = shape.total_kv_tokens = kSequences * kContextTokens;
  return shape;
}

}  // namespace

FleetPlans::FleetPlans(std::shared_ptr<FleetTrials> trials, const signals::SloPolicy& slo,
                       const PlannerOptions& options)
    : trials_(std::move(trials)),
      slo_(slo),
      options_(options),
      burn_(slo, options.burn_rate),
      memory_(std::make_shared<TrafficMemory>(trials_, options.memory)),
      floor_(memory_, options.throughput_loop),
      load_(memory_, options.load_loop) {
  for (const PoolProfile& profile : options.profiles) speeds_.emplace_back(profile);
  for (std::size_t i = 0; i <= slo.segments.size(); ++i) goals_.push_back(slo.goal_at(i));
  memory_->listen(
      [this](core::Instant from, core::Instant to, const Fleet& fleet, double load, const TrialOutcome& outcome) {
        load_outlook_->observe_trial(from, to, fleet, load, outcome, best());
      });
}

void FleetPlans::expect_within(const CapacityLags& lags) {
  lags_ = lags;
  outlook_.emplace(options_.outlook, options_.memory.length, lags.start_up + options_.throughput_loop.interval);
}

void FleetPlans::begin(const CapacityLags& lags) {
  expect_within(lags);
  load_outlook_.emplace(slo_.goal, lags, options_.controller);
}

// A start-up time that is measured, or that a configuration corrects, may differ from that of the first observation.
void FleetPlans::follow(const CapacityLags& lags) {
  const auto differ = [](core::Duration now, core::Duration before) {
    const double change = std::abs(core::to_seconds(now - before));
    return minutes_up(now) != minutes_up(before) && change > kLagChange * core::to_seconds(before);
  };
  if (!differ(lags.start_up, lags_.start_up) && !differ(lags.soonest, lags_.soonest)) return;
  expect_within(lags);
  outlook_->warm_up(options_.history);
  load_outlook_->change_lags(lags);
}

void FleetPlans::learn(const signals::Observation& observation, const signals::Observation& spread) {
  if (!outlook_) {
    busy_at_ = observation.now;  // Nothing is known of the time before.
    begin(lags_of(observation));
    outlook_->warm_up(options_.history);
  }
  follow(lags_of(observation));
  outlook_->observe(spread);
  burn_.observe(observation, best());
  const LoopPlan* plan = load_plan();
  load_outlook_->observe(spread, plan != nullptr ? plan->used : core::Duration{}, uncertainty(), options_.phase, burn_);
  if (signals::entry_traffic(observation).last_minute.arrivals > 0 || has_work(observation)) busy_at_ = observation.now;
  for (ReplicaSpeed& speed : speeds_) speed.observe_lengths(observation.recent, observation.now);
  bool changed = false;
  for (std::size_t i = 0; i < std::min(speeds_.size(), observation.pools.size()); ++i)
    changed = speeds_[i].observe(observation.pools[i], observation.now) || changed;
  if (!changed || !trials_) return;
  correct_trials();
  memory_->forget_outcomes();
}

void FleetPlans::make(const signals::Observation& spread) {
  memory_->begin_tick(spread);
  const Fleet current = correction_.planned(targets_of(spread));
  if (has_load())
    load_.tick(
        spread, current,
        [&](double) {
          return PlanGoal{goals_, 1.0, load_outlook_->futures(uncertainty()),
                          load_outlook_->controller(options_.phase).allowance, misses()};
        },
        in_trouble(spread), traffic_step(spread.recent, spread.now));
  expects_more_ = load_.plan() && outlook_->growth(load_.plan()->rate) > load_outlook_->largest_future();
  if (uses_floor(options_.phase))
    floor_.tick(spread, current, [&](double rate) { return PlanGoal{goals_, outlook_->growth(rate)}; });
  note_plan(spread);
  check_trials(spread);
  raise_plans(spread);
}

bool FleetPlans::is_idle(core::Instant now) const { return now > busy_at_ + kIdleAfter; }

bool FleetPlans::in_trouble(const signals::Observation& observation) const {
  return early_sign(observation, slo_).has_value();
}

// Attainment of a fleet of any size, as far as trials know.
double FleetPlans::best() const {
  const auto& plan = load_.plan() ? load_.plan() : floor_.plan();
  return plan ? plan->best : 1.0;
}

double FleetPlans::uncertainty() const {
  double outside = 0.0;
  bool guesses = false;
  for (const ReplicaSpeed& speed : speeds_) {
    outside = std::max(outside, speed.outside_profile());
    guesses = guesses || speed.is_uncalibrated();
  }
  return (1.0 + outside) * (guesses ? kGuessedEngine : 1.0);
}

void FleetPlans::correct_trials() {
  std::vector<EngineCorrection> engines;
  for (const ReplicaSpeed& speed : speeds_) engines.push_back(speed.engine());
  trials_->correct(engines);
}

// ---- plans ----------------------------------------------------------------------------------------------------------

// Beside the load loop, a floor is of use only where a forecast that has proved accurate expects more traffic than
// nearly all futures.
bool FleetPlans::uses_floor(RolloutPhase phase) const {
  if (!has_floor()) return false;
  return phase < RolloutPhase::kLoad || !has_load() || expects_more_;
}

bool FleetPlans::is_usable(const LoopPlan* plan) { return plan != nullptr && plan->best >= kUsable; }

const LoopPlan* FleetPlans::floor_plan(core::Instant now, RolloutPhase phase) const {
  const LoopPlan* plan = floor_.plan() ? &*floor_.plan() : nullptr;
  if (!uses_floor(phase) || !is_usable(plan)) return nullptr;
  return plan->made + 2 * options_.throughput_loop.interval < now && floor_.waiting_since() ? nullptr : plan;
}

const LoopPlan* FleetPlans::leading_plan(core::Instant now) const {
  const auto size = [](const LoopPlan* plan) { return plan == nullptr ? 0 : replicas_of(plan->fleet); };
  const LoopPlan* floor = floor_plan(now, options_.phase);
  const LoopPlan* load = load_plan();
  return size(load) > size(floor) ? load : floor;
}

bool FleetPlans::are_late(core::Instant now) const {
  const auto overdue = [&](const PlanLoop& loop, core::Duration interval) {
    return loop.waiting_since() && now > *loop.waiting_since() + interval;
  };
  const auto& plan = has_load() ? load_.plan() : floor_.plan();
  return (overdue(floor_, options_.throughput_loop.interval) || overdue(load_, 4 * options_.load_loop.interval)) &&
         !(plan && now <= plan->made + kPlanLasts);
}

// ---- hold -----------------------------------------------------------------------------------------------------------

void FleetPlans::note_plan(const signals::Observation& observation) {
  const LoopPlan* plan = load_plan();
  if (plan == nullptr || plan->made != observation.now) return;
  recent_plans_.resize(plan->fleet.size() + 1, TimedValues{kRecentPlans});
  for (std::size_t i = 0; i < plan->fleet.size(); ++i) recent_plans_[i].add(observation.now, plan->fleet[i]);
  recent_plans_.back().add(observation.now, static_cast<double>(replicas_of(plan->fleet)));
}

// Holds are learned for the default stabilisation window and scale with it.
core::Duration FleetPlans::hold(RolloutPhase phase) const {
  const double part =
      core::to_seconds(options_.guardrails.stabilisation) / core::to_seconds(GuardrailOptions{}.stabilisation);
  return core::from_seconds(part * core::to_seconds(load_outlook_->controller(phase).hold));
}

std::uint32_t FleetPlans::held_plan(core::Instant now, std::size_t pool, RolloutPhase phase, bool sleeps,
                                    bool for_switches) const {
  const core::Duration longer = for_switches
                                    ? options_.guardrails.shrink_step
                                    : hold(phase) - (sleeps ? core::Duration{} : options_.guardrails.stabilisation);
  if (pool >= recent_plans_.size() || longer <= core::Duration{}) return 0;
  return static_cast<std::uint32_t>(recent_plans_[pool].max(now, longer).value_or(0.0));
}

std::uint32_t FleetPlans::held_sum(core::Instant now, RolloutPhase phase) const {
  return recent_plans_.empty() ? 0 : held_plan(now, recent_plans_.size() - 1, phase);
}

void FleetPlans::forget_held(core::Instant now, std::size_t pool, std::uint32_t target) {
  if (pool >= recent_plans_.size()) return;
  recent_plans_[pool] = TimedValues{kRecentPlans};
  recent_plans_[pool].add(now, target);
}

// ---- correction -----------------------------------------------------------------------------------------------------

void FleetPlans::check_trials(const signals::Observation& observation) {
  const auto check = memory_->check(slo_, correction_.factor());
  if (!check) return;
  trial_error_.observe(*check);
  // What starts has not had an effect yet.
  const bool may_grow = observation.now >= raise_from_ && !replicas_start(observation);
  if (correction_.observe(*check, observation.now, may_grow)) wait_for_start(observation);
}

void FleetPlans::wait_for_start(const signals::Observation& observation) {
  raise_from_ = observation.now + std::max(kRaiseStep, lags_of(observation).soonest);
}

// The SLO burns although the plans consider the fleet sufficient, and no check of a trial explains it: the correction
// grows step by step until the burning stops.
void FleetPlans::raise_plans(const signals::Observation& observation) {
  const core::Duration passed = observation.now - raised_at_;
  if (passed < kRaiseStep) return;
  const std::uint64_t waiting = waiting_requests(observation), waited = std::exchange(waiting_, waiting);
  raised_at_ = observation.now;
  if (!burning()) return correction_.decay();
  // A shrinking queue resolves soon, and starting replicas have not had an effect yet.
  if (!in_trouble(observation) || replicas_start(observation) || waiting < waited) return;
  if (observation.now < raise_from_) return;
  if (correction_.raise(observation.now)) wait_for_start(observation);
}

// ---- state ----------------------------------------------------------------------------------------------------------

std::vector<double> FleetPlans::slo_figures() const {
  std::vector<double> figures;
  for (std::size_t i = 0; i <= slo_.segments.size(); ++i) {
    const signals::SloTarget& target = slo_.target_at(i);
    for (const core::Duration limit : {target.ttft, target.itl, target.e2e.value_or(core::Duration{})})
      figures.push_back(core::to_seconds(limit));
    figures.push_back(slo_.goal_at(i));
  }
  return figures;
}

std::vector<double> FleetPlans::engine_figures() const {
  std::vector<double> figures;
  for (const PoolProfile& profile : options_.profiles) {
    const capacity::EngineLimits& limits = profile.limits;
    figures.insert(figures.end(), {limits.max_sequences, limits.max_batched_tokens, limits.kv_tokens});
    for (const engine::StepShape& shape : {prompt_step(), decode_step()})
      figures.push_back(profile.step_time ? core::to_seconds(profile.step_time->step(shape)) : 0.0);
  }
  return figures;
}

// The traffic that is remembered is judged anew, and trials are made again.
void FleetPlans::forget_misses() {
  burn_ = BurnRate{slo_, options_.burn_rate};
  memory_->forget_outcomes();
  floor_ = PlanLoop{memory_, options_.throughput_loop};
  load_ = PlanLoop{memory_, options_.load_loop};
  trial_error_ = {};
  correction_ = {};
  if (load_outlook_) load_outlook_->forget_misses(lags_);
}

void FleetPlans::archive(core::StateArchive& state) {
  std::vector<double> slo = slo_figures(), engines = engine_figures();
  bool begun = outlook_.has_value();
  state("plans", begun, lags_, slo, engines);
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
  state("loops", burn_, *memory_, floor_, load_, trial_error_, correction_);
  state.elements(speeds_);
  std::uint64_t pools = recent_plans_.size();
  state("recent_plans", pools);
  if (state.reading()) recent_plans_.assign(std::min<std::uint64_t>(pools, kPoolsMost), TimedValues{kRecentPlans});
  for (TimedValues& plans : recent_plans_) state.values_of(plans);
  state("raise", waiting_, raised_at_, raise_from_, busy_at_);
  if (state.reading()) {
    const bool other_engines = engines != engine_figures();
    if (other_engines || slo != slo_figures()) forget_misses();
    if (other_engines)
      for (std::size_t i = 0; i < speeds_.size(); ++i) speeds_[i] = ReplicaSpeed{options_.profiles[i]};
  }
  if (state.reading() && !state.failed() && trials_ && !speeds_.empty()) correct_trials();
}

}  // namespace penstock::planner
