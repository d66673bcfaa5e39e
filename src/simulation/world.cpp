#include "simulation/world.h"

#include <algorithm>

#include "core/result.h"
#include "simulation/cache_feed.h"
#include "simulation/engine_sample.h"
#include "simulation/input_share.h"

namespace penstock::simulation {

using signals::ReplicaState;
using signals::Role;

namespace {

constexpr core::Duration kLimitAfterLastArrival = std::chrono::hours{24};  // then the run is given up
constexpr core::Duration kLoadReportInterval = std::chrono::seconds{1};    // as often as the gateway scrapes engines
constexpr core::Duration kNarrowestPoint = std::chrono::seconds{1};

// What the replicas did and cost.
void add_fleet_totals(const FleetTotals& totals, const RunOptions& options, decision::RunResult& result) {
  for (const PoolSpec& pool : options.pools) result.replicas += pool.replicas;
  result.peak_replicas = totals.peak_replicas;
  if (result.duration_s > 0.0) result.mean_replicas = core::to_seconds(totals.replica_time) / result.duration_s;
  if (result.duration_s > 0.0) result.mean_asleep = core::to_seconds(totals.asleep_time) / result.duration_s;
  result.role_switches = totals.switches;
  result.gpu_hours = core::to_hours(totals.gpu_time);
  result.cost = totals.cost;
  result.itl_ms = core::summarize(totals.token_gaps_ms);
  if (totals.prompt_tokens > 0)
    result.prefix_hit_ratio = static_cast<double>(totals.hit_tokens) / static_cast<double>(totals.prompt_tokens);
  result.input_cost_share = share_of_input(totals, result, options.pools);
  result.preemptions = totals.preemptions;
}

// Only a restart and checks read the ledger.
bool keeps_ledger(const RunOptions& options) {
  const auto& events = options.faults.events;
  return options.check_each_event || std::any_of(events.begin(), events.end(), [](const FaultEvent& event) {
           return event.kind == FaultKind::kGatewayRestart;
         });
}

// A sample that shows an empty queue and an empty KV cache.
void falsify(signals::EngineSample& sample) {
  sample.queued_requests = 0;
  for (auto* tokens : {&sample.queued_prefill_tokens, &sample.inflight_prefill_tokens, &sample.scheduled_kv_tokens,
                       &sample.queued_kv_tokens, &sample.kv_used_tokens})
    *tokens = 0;
  sample.oldest_queued_age = core::Duration{};
}

// What the dispatcher receives of an engine. One that stays idle has nothing new to report.
void report_load(Replica& replica, core::Instant now, dispatch::Dispatcher& dispatcher) {
  const bool idle = replica.engine->idle();
  if (idle && replica.reported_idle) return;
  replica.reported_idle = idle;
  const engine::EngineState state = replica.engine->state(now);
  dispatcher.report_load(replica.slot,
                         {now, state.waiting, state.running, state.waiting_prefill_tokens,
                          static_cast<double>(state.active_kv_tokens) / static_cast<double>(state.total_kv_tokens),
                          state.total_kv_tokens});
}

void report_all(Fleet& fleet, core::Instant now, dispatch::Dispatcher& dispatcher) {
  for (Pool& pool : fleet.pools()) {
    for (const std::uint32_t id : pool.replicas) {
      Replica& replica = fleet.replica(id);
      if (replica.is_in_use() && !replica.is_hung(now)) report_load(replica, now, dispatcher);
    }
  }
}

// The telemetry that was sampled until `sampled` has arrived.
void observe_replicas(Fleet& fleet, std::uint32_t index, core::Instant sampled, signals::PoolObservation& seen) {
  const Pool& pool = fleet.pools()[index];
  static_cast<signals::Pool&>(seen) = pool.spec;
  seen.target_replicas = pool.target;
  seen.asleep_target = pool.asleep_target;
  seen.starting = fleet.count(index, ReplicaState::kStarting);
  seen.ready = fleet.count(index, ReplicaState::kReady);
  seen.draining = fleet.count(index, ReplicaState::kDraining);
  seen.asleep = fleet.count_asleep(index);
  seen.switching = fleet.count_switching(index);
  seen.starting_to_sleep = fleet.count(index, ReplicaState::kAsleep) - seen.asleep;
  for (const std::uint32_t id : pool.replicas) {
    Replica& replica = fleet.replica(id);
    auto& coming = replica.on_its_way;
    for (; !coming.empty() && coming.front().sampled_at <= sampled; coming.pop_front())
      replica.reported = coming.front();
    seen.replicas.push_back({id, replica.state, replica.state_since, replica.reported});
  }
}

}  // namespace

core::Duration series_width(const workload::Workload& workload, const RunOptions& options) {
  const core::Duration width = workload.span() / std::max<std::uint32_t>(1, options.series_points);
  return std::max<core::Duration>(kNarrowestPoint, std::chrono::ceil<std::chrono::seconds>(width));
}

World::World(const workload::Workload& workload, decision::Policy& policy, const RunOptions& options,
             workload::Workload* arrivals)
    : workload_(workload),
      arrivals_(arrivals),
      follow_ups_(workload),
      give_up_(std::max(core::Instant{workload.span()}, options.runs_until) + kLimitAfterLastArrival),
      policy_(policy),
      options_(options),
      faults_(core::RandomStream{options.seed}.fork("faults")),
      gateway_(make_gateway(workload, options)),
      dispatcher_(std::in_place, gateway_.options, ledger_sink(), core::kStart, core::Duration{}),
      fleet_(options, gateway_.model, *dispatcher_, core::RandomStream{options.seed}.fork("fleet")),
      recorder_(workload, {options.slo, options.slo_goal, options.slo_segments}, options.model,
                series_width(workload, options)),
      view_(workload, options, timeline_, fleet_, recorder_, policy.memory(), policy.wants_segments()),
      requests_(workload, options, gateway_, *dispatcher_, timeline_, fleet_, recorder_, view_),
      generated_history_(options.pools.size(), {{core::kStart, 0}}),
      point_width_(series_width(workload, options)),
      loop_(policy) {
  PENSTOCK_ASSERT(!follow_ups_.any() || arrivals != nullptr, "requests that wait get their arrivals");
  if (follow_ups_.any()) recorder_.on_end([this](std::uint32_t request, core::Instant at) { follow_up(request, at); });
}

// The next turns of a session arrive some time after this one has ended.
void World::follow_up(std::uint32_t ended, core::Instant at) {
  follow_ups_.ended(ended, at, [&](std::uint32_t request, core::Instant arrival) {
    arrival = std::max(arrival, timeline_.now);
    arrivals_->requests[request].arrival = arrival;
    give_up_ = std::max(give_up_, arrival + kLimitAfterLastArrival);
    timeline_.schedule(arrival, EventKind::kArrival, request);
  });
}

std::unique_ptr<dispatch::LedgerSink> World::ledger_sink() {
  return keeps_ledger(options_) ? std::make_unique<LedgerMemorySink>(ledger_) : nullptr;
}

void World::begin() {
  for (std::uint32_t id = 1, count = fleet_.add_ready(timeline_.now); id <= count; ++id) draw_crash(id);
  fill_caches(options_, gateway_, *dispatcher_, timeline_, fleet_);
  schedule_faults();
  if (policy_.interval() != core::Duration::max()) {
    const core::Instant first = core::kStart + policy_.interval();
    timeline_.schedule(first - options_.faults.telemetry_delay % policy_.interval(), EventKind::kScrape);
    timeline_.schedule(first, EventKind::kTick);
  }
  if (options_.router == routing::Strategy::kLive)
    timeline_.schedule(core::kStart + kLoadReportInterval, EventKind::kLoadReports);
  if (options_.details) timeline_.schedule(options_.judged_from, EventKind::kScoring);
  timeline_.schedule(options_.details ? core::kStart + point_width_ : core::kNever, EventKind::kPoint);

  recorder_.judge_window(options_.judged_from, options_.details ? core::kNever : options_.judged_until);
  if (!options_.details) recorder_.skip_points();
}

core::Instant World::next_time() {
  const auto& requests = workload_.requests;
  while (next_ < requests.size() && follow_ups_.follows(static_cast<std::uint32_t>(next_))) ++next_;
  const core::Instant arrival = next_ < requests.size() ? requests[next_].arrival : core::kNever;
  return std::min({arrival, timeline_.next_event(), timeline_.engines.next_time()});
}

bool World::step() {
  const auto& requests = workload_.requests;
  const core::Instant at = next_time();
  if (recorder_.has_all() && (timeline_.now >= options_.runs_until || at > options_.runs_until)) return false;
  const core::Instant arrival = next_ < requests.size() ? requests[next_].arrival : core::kNever;
  if (!options_.details && arrival >= options_.judged_until && recorder_.open_in_window() == 0) return false;
  timeline_.now = at;
  if (at > give_up_) return false;
  if (timeline_.next_event() == at) {
    handle(timeline_.take_event());
  } else if (arrival == at) {
    requests_.arrive(static_cast<std::uint32_t>(next_++));
    if (options_.progress && next_ % std::max<std::size_t>(1, requests.size() / 200) == 0)
      options_.progress(static_cast<double>(next_) / static_cast<double>(requests.size()));
  } else {
    const std::uint32_t replica = timeline_.engines.next_actor();
    requests_.advance_engine(replica);
    advance_if_drained(fleet_.replica(replica));
  }
  if (options_.check_each_event) check_invariants(false);
  return true;
}

decision::RunResult World::finish() {
  requests_.give_up_open();
  check_invariants(true);
  if (!options_.details) {
    decision::RunResult counts;
    recorder_.judge(counts);
    return counts;
  }
  if (!unscored_changes_) begin_scoring();
  const core::Instant end = std::max({recorder_.last_end(), core::Instant{workload_.span()}, options_.runs_until});
  recorder_.close_point(end, fleet_.snapshot(timeline_.now, requests_.waiting()));

  decision::RunResult result;
  recorder_.summarize(result, end);
  requests_.summarize(result, unscored_gateway_);
  result.policy = policy_.name();
  result.router = to_string(options_.router);
  add_fleet_totals(fleet_.totals(end), options_, result);
  result.scaling_actions = loop_.changes() - *unscored_changes_;
  result.direction_changes = loop_.direction_changes() - unscored_direction_changes_;
  history_.move_to(result);
  return result;
}

void World::handle(const Event& event) {
  switch (event.kind) {
    case EventKind::kReplicaHealthy:
      fleet_.replica(event.subject).healthy = true;
      advance_fleet();
      break;
    case EventKind::kReplicaReady: replica_ready(event.subject); break;
    case EventKind::kFleet: advance_fleet(); break;
    case EventKind::kTransferDone:
      if (const auto source = requests_.finish_transfer(event.subject)) advance_if_drained(fleet_.replica(*source));
      break;
    case EventKind::kArrival: requests_.arrive(event.subject); break;
    case EventKind::kDispatcher: requests_.tick(); break;
    case EventKind::kLoadReports: report_loads(); break;
    case EventKind::kCrash: crash(event.subject); break;
    case EventKind::kFault: begin_fault(options_.faults.events[event.subject]); break;
    case EventKind::kFaultEnd: end_fault(options_.faults.events[event.subject]); break;
    case EventKind::kHealthCheck: check_health(event.subject); break;
    case EventKind::kReplicaSilent: check_silence(event.subject); break;
    case EventKind::kClientLeaves:
      requests_.client_leaves(event.subject);
      advance_draining();
      break;
    case EventKind::kOutOfTime:
      requests_.out_of_time(event.subject);
      advance_draining();
      break;
    case EventKind::kFirstByteTimeout:
      requests_.end_late_attempts();
      advance_draining();
      break;
    case EventKind::kCacheEvents: requests_.deliver_cache_events(); break;
    case EventKind::kScrape:
      scrape();
      timeline_.schedule(timeline_.now + policy_.interval(), EventKind::kScrape);
      break;
    case EventKind::kTick:
      tick();
      timeline_.schedule(timeline_.now + policy_.interval(), EventKind::kTick);
      break;
    case EventKind::kScoring: begin_scoring(); break;
    case EventKind::kPoint:
      recorder_.close_point(timeline_.now, fleet_.snapshot(timeline_.now, requests_.waiting()));
      timeline_.schedule(timeline_.now + point_width_, EventKind::kPoint);
      break;
  }
}

void World::begin_scoring() {
  fleet_.begin_scoring(timeline_.now);
  unscored_gateway_ = requests_.gateway_totals();
  unscored_changes_ = loop_.changes();
  unscored_direction_changes_ = loop_.direction_changes();
}

// A violation is a fault of this program.
void World::check_invariants(bool at_end) const {
  std::string violation = dispatcher_->invariant_violation(timeline_.now);
  if (violation.empty()) violation = budgets_.violation(*dispatcher_, timeline_.now);
  if (violation.empty() && at_end) violation = requests_.final_violation(keeps_ledger(options_) ? &ledger_ : nullptr);
  if (violation.empty()) return;
  violation +=
      "; seed " + std::to_string(options_.seed) + " at " + std::to_string(core::to_seconds(timeline_.now)) + " s";
  core::assertion_failed("invariants of the run", violation.c_str(), __FILE__, __LINE__);
}

void World::report_loads() {
  report_all(fleet_, timeline_.now, *dispatcher_);
  timeline_.schedule(timeline_.now + kLoadReportInterval, EventKind::kLoadReports);
}

// ---- what the policy sees and does ----------------------------------------------------------------------------------

void World::scrape() {
  for (Pool& pool : fleet_.pools()) {
    for (const std::uint32_t id : pool.replicas) {
      Replica& replica = fleet_.replica(id);
      if (!replica.is_in_use() || replica.is_hung(timeline_.now)) continue;
      if (options_.faults.telemetry_loss > 0.0 && faults_.uniform() < options_.faults.telemetry_loss) continue;
      signals::EngineSample sample = sample_of(replica.engine->state(timeline_.now), timeline_.now);
      if (options_.faults.telemetry_lie > 0.0 && faults_.uniform() < options_.faults.telemetry_lie) falsify(sample);
      replica.on_its_way.push_back(sample);
    }
  }
}

signals::Observation World::observe() {
  signals::Observation observation;
  observation.now = timeline_.now;
  observation.recent = view_.recent();
  observation.tenants = workload_.tenants;
  for (std::uint32_t index = 0; index < fleet_.pools().size(); ++index) {
    Pool& pool = fleet_.pools()[index];
    signals::PoolObservation& seen = observation.pools.emplace_back();
    observe_replicas(fleet_, index, timeline_.now - options_.faults.telemetry_delay, seen);
    seen.unrouted_requests = requests_.unrouted(index);
    seen.actions_failed_total = pool.actions_failed;
    pool.meter.read(seen, timeline_.now, workload_.tenants);
    if (const auto oldest = seen.detail ? requests_.oldest_unrouted(index) : std::nullopt)
      seen.detail->oldest_unrouted_age = timeline_.now - *oldest;

    seen.output_tokens_total = fleet_.generated_tokens(index, timeline_.now);
    auto& history = generated_history_[index];
    history.emplace_back(timeline_.now, seen.output_tokens_total);
    while (history[1].first + seen.last_minute.length <= timeline_.now) history.pop_front();
    seen.last_minute.output_tokens = seen.output_tokens_total - history.front().second;
  }
  return observation;
}

void World::tick() {
  decision::Tick tick = loop_.tick(observe(), [this](std::size_t pool, std::uint32_t target) {
    return request_target(static_cast<std::uint32_t>(pool), target);
  });
  for (std::size_t i = 0; i < tick.decision.pools.size(); ++i)
    fleet_.pools()[i].asleep_target = tick.decision.pools[i].asleep;
  // A run without details reports no decisions.
  if (options_.details) history_.add(timeline_.now, std::move(tick), point_width_, fleet_.pools());
  advance_fleet();
}

// False: the platform refuses. The policy then finds its target as it was, and one more failed action.
bool World::request_target(std::uint32_t pool, std::uint32_t target) {
  if (options_.faults.refused_actions > 0.0 && faults_.uniform() < options_.faults.refused_actions) {
    ++fleet_.pools()[pool].actions_failed;
    return false;
  }
  fleet_.pools()[pool].target = target;
  return true;
}

}  // namespace penstock::simulation
