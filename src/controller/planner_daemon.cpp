#include "controller/planner_daemon.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <utility>

#include "actuation/pod_scaling.h"
#include "controller/annotated_pools.h"
#include "controller/shared_targets.h"
#include "controller/tick_timer.h"
#include "decision/figures.h"
#include "signals/role_switch.h"
#include "telemetry/exposition_writer.h"

namespace penstock::controller {
namespace {

// The policy requests the time that its trials need; windows and segments need a minute.
constexpr core::Duration kMemoryLeast = std::chrono::minutes{2};

bool is_disaggregated(const DaemonOptions& options) {
  return std::any_of(options.pools.begin(), options.pools.end(),
                     [](const signals::Pool& pool) { return pool.role == signals::Role::kDecode; });
}

// Pods that cannot start are why a fleet stays smaller than its target.
void add_pending(const Fleet& fleet, std::size_t index, decision::Tick& tick) {
  const auto scaling = fleet.scaling(index);
  if (!scaling || scaling->held_by_cause != actuation::to_string(actuation::HoldCause::kBlocked)) return;
  const decision::Evidence pending{"pending_replicas", static_cast<double>(scaling->pending), "replicas"};
  const std::string text =
      fmt::format("{}: {} cannot start, and no more replicas are asked for", scaling->pool, scaling->held_by);
  const auto explain = [&](decision::Basis& basis) { basis.diagnosis += (basis.diagnosis.empty() ? "" : "; ") + text; };
  tick.decision.pools[index].evidence.push_back(pending);
  explain(tick.decision);
  for (decision::DecisionRecord& record : tick.records) {
    explain(record);
    if (record.pool == scaling->pool) record.evidence.push_back(pending);
  }
}

template <class Value>
std::vector<Value> of_pools(const DaemonOptions& options, Value signals::Pool::*member) {
  std::vector<Value> made;
  for (const signals::Pool& pool : options.pools) made.push_back(pool.*member);
  return made;
}

void put_bounds_and_prices(std::vector<signals::Pool>& pools, const std::vector<signals::Pool>& others) {
  for (std::size_t pool = 0; pool < pools.size(); ++pool) {
    pools[pool].min_replicas = others[pool].min_replicas;
    pools[pool].max_replicas = others[pool].max_replicas;
    pools[pool].price_per_gpu_hour = others[pool].price_per_gpu_hour;
  }
}

}  // namespace

PlannerDaemon::PlannerDaemon(net::Loop& loop, net::Client& client, Fleet& fleet, decision::Policy& policy,
                             DaemonOptions options, logging::Log& log,
                             std::function<void(const decision::DecisionRecord&)> record)
    : loop_(loop),
      client_(client),
      fleet_(fleet),
      targets_(fleet),
      policy_(&policy),
      options_(std::move(options)),
      log_(log),
      record_(std::move(record)),
      gpu_costs_(loop.now(), PolicyKeeper::unix_ms()),
      tokens_from_(loop.now()),
      traffic_(traffic_options()),
      control_loop_(policy, of_pools(options_, &signals::Pool::price_per_gpu_hour)),
      data_since_(loop.now()),
      events_(log),
      gateways_(loop, client, options_.gateways, events_, gateway_callbacks()),
      keeper_(options_.policy_store, log, of_pools(options_, &signals::Pool::name)),
      policy_saved_at_(loop.now()) {
  keep_start_up();
  if (options_.leadership == nullptr)
    restore_policy();
  else
    fresh_policy_ = control_loop_.snapshot();
  timers_.push_back(loop_.every(options_.point_interval, [this] { add_point(); }));
  // The first tick comes with the first data: a policy may decide only once.
  const core::Duration interval = std::min<core::Duration>(policy_->interval(), std::chrono::hours{24});
  timers_.push_back(loop_.every(interval, [this] { tick(); }));
}

PlannerDaemon::~PlannerDaemon() {
  if (!is_ending_ && leads()) keeper_.save(control_loop_, gpu_costs_.costs());
  for (const net::Loop::Timer timer : timers_) loop_.cancel(timer);
}

GatewaySet::Callbacks PlannerDaemon::gateway_callbacks() {
  GatewaySet::Callbacks made;
  made.state = [this](const GatewayState& state, core::Instant at) { fleet_.update_gateway(state, at); };
  made.answered = [this] { watch_data(); };
  made.traffic = [this](const TrafficPage* page) { take_traffic(page); };
  if (fleet_.acts())
    made.prefixes = [this](std::vector<GatewayPrefix> prefixes) { fleet_.hot_prefixes(std::move(prefixes)); };
  return made;
}

TrafficOptions PlannerDaemon::traffic_options() const {
  const core::Duration memory = std::max(policy_->memory(), kMemoryLeast);
  TrafficOptions made{memory, 100'000, options_.slo, is_disaggregated(options_), options_.model, tokens_from_};
  made.pools = signals::served_by(options_.pools);
  return made;
}

void PlannerDaemon::reconfigure(DaemonOptions options, std::unique_ptr<decision::Policy> policy, bool slo_changed) {
  PENSTOCK_ASSERT(options.pools.size() == options_.pools.size(), "pools change with a restart");
  put_bounds_and_prices(options_.pools, options.pools);
  control_loop_.set_prices(of_pools(options_, &signals::Pool::price_per_gpu_hour));
  const bool is_judged_anew = slo_changed || options.model != options_.model;
  options_.model = std::move(options.model);
  options_.slo = std::move(options.slo);
  options_.gateways.access = options.gateways.access;
  gateways_.set_access(std::move(options.gateways.access));
  policy_ = policy.get();
  if (const auto restored = control_loop_.replace(*policy_); !restored) keeper_.log_restored(restored);
  reloaded_policy_ = std::move(policy);
  if (!is_judged_anew) return;
  count_costs();
  tokens_from_ = loop_.now();
  traffic_ = TrafficRecorder{traffic_options()};
  gateways_.read_traffic_again();
}

// ---- the gateways ---------------------------------------------------------------------------------------------------

// Whether the planner has data changes between ticks: a policy may decide only every few minutes.
void PlannerDaemon::watch_data() {
  signals::Observation seen = observe(loop_.now());
  const signals::DataLimits limits{options_.gateways.timeout, report::kSampleAgeMax};
  signals::DataState state = signals::data_state(seen, gateways_.read_at(), fleet_.acts(), limits);
  if (state != signals::DataState::kNoGateway && !fleet_.unknown_because().empty())
    state = signals::DataState::kNoFleet;
  const bool decided = signals::can_decide(data_);
  if (std::exchange(data_, state) != state) data_since_ = seen.now;
  had_data_ = had_data_ || state == signals::DataState::kKnown;
  if (gateways_.is_awaited()) return;
  const auto before = std::exchange(reported_data_, state);
  if (before == state) return;
  if (state == signals::DataState::kKnown) {
    log_.write(logging::Event::kDataKnown, {{"state", to_string(state)}});
    if (before) events_.add(seen.now, false, {}, "the planner has the data that it needs");
  } else if (state != signals::DataState::kStarting) {
    log_.write(logging::Event::kDataUnknown, {{"state", to_string(state)}, {"cause", unknown_because()}});
    events_.add(seen.now, true, {}, unknown_because());
  }
  if (!signals::can_decide(state) || !decided) tick();
}

void PlannerDaemon::take_traffic(const TrafficPage* page) {
  if (!reported_data_) watch_data();
  if (page == nullptr) return;
  const signals::RequestEnds before = traffic_.ends();
  traffic_.take(*page, loop_.now());
  // A page that begins before traffic_ did was counted by the recorder of that time, or is older than this planner. The
  // page around that moment is left out, too.
  const double known_s = core::to_seconds(loop_.now() - tokens_from_);
  if (page->items.empty() || page->now_s - page->items.front().at_s <= known_s) ends_ += traffic_.ends() - before;
  observe_scaling();
}

void PlannerDaemon::observe_scaling() {
  std::vector<signals::PoolObservation> pools(options_.pools.size());
  for (std::size_t index = 0; index < pools.size(); ++index) {
    pools[index].name = options_.pools[index].name;
    fleet_.fill(index, pools[index]);
  }
  scaling_.observe(loop_.now(), pools, ends_);
}

// ---- a tick ---------------------------------------------------------------------------------------------------------

signals::Observation PlannerDaemon::observe(core::Instant now) {
  signals::Observation seen;
  seen.now = now;
  for (std::size_t index = 0; index < options_.pools.size(); ++index) {
    signals::PoolObservation& made = seen.pools.emplace_back();
    static_cast<signals::Pool&>(made) = options_.pools[index];
    fleet_.fill(index, made);
    add_gaps(fleet_.replicas(index), made);
  }
  traffic_.fill(seen.pools, now);
  const bool has_own = !signals::served_by(options_.pools).empty();
  for (signals::PoolObservation& pool : seen.pools) {
    if (pool.role == signals::Role::kDecode) continue;
    const GatewayWaiting waits =
        gateways_.state() ? gateways_.state()->waiting_for(options_.model, has_own ? pool.name : "") : GatewayWaiting{};
    pool.unrouted_requests = waits.requests;
    pool.detail->oldest_unrouted_age = core::from_seconds(waits.oldest_s);
  }
  return seen;
}

// What the gateway measures stands for the gaps between tokens that an engine does not report.
void PlannerDaemon::add_gaps(const std::vector<ReplicaView>& views, signals::PoolObservation& pool) const {
  if (pool.role == signals::Role::kPrefill) return;
  for (signals::ReplicaObservation& replica : pool.replicas) {
    if (!replica.sample || replica.sample->itl_s || replica.sample->iterations.steps() > 0) continue;
    const auto view = std::find_if(views.begin(), views.end(),
                                   [&](const ReplicaView& each) { return each.seen.replica == replica.replica; });
    if (view != views.end()) replica.sample->itl_s = traffic_.gaps_of(view->name);
  }
}

void PlannerDaemon::tick() {
  look_at_leadership();
  if (gateways_.is_awaited() || restores_policy_ || is_ending_) return;
  const TickTimer timer{tick_times_};
  signals::Observation seen = observe(loop_.now());
  // Missing traffic looks like no traffic: the policy must not see it.
  if (!has_led_ || !signals::can_decide(data_)) {
    decision::Tick held =
        has_led_ ? control_loop_.hold(seen, unknown_because()) : control_loop_.follow(seen, followed_because());
    if (options_.on_hold) options_.on_hold();
    return take_tick(std::move(held), std::move(seen));
  }
  seen.recent = traffic_.recent(seen.now - policy_->memory());
  seen.tenants = traffic_.tenants();
  std::vector<std::uint32_t> prompts;
  for (const signals::RecentRequest& request : seen.recent) prompts.push_back(request.input_tokens);
  if (!prompts.empty()) fleet_.recent_prompts(std::move(prompts));
  const bool acts = !options_.observe_only && fleet_.acts();
  decision::Tick tick = control_loop_.tick(seen, [&](std::size_t pool, std::uint32_t target) {
    if (acts && leads()) targets_.set(pool, target);  // The decision may have taken long.
    return !acts || leads();
  });
  if (acts && leads()) targets_.confirm(tick.decision, options_.pools);
  has_decided_ = true;
  keeper_.ticked();
  seen.recent = {};
  seen.tenants = {};
  // Without telemetry nothing is known to be fine.
  const auto mark = [this](decision::Basis& basis) {
    if (data_ == signals::DataState::kKnown || basis.cause.value_or(decision::Cause::kNone) != decision::Cause::kNone)
      return;
    basis.cause = decision::Cause::kUnknown;
    basis.diagnosis = unknown_because();
  };
  mark(tick.decision);
  for (decision::DecisionRecord& record : tick.records) mark(record);
  for (std::size_t index = 0; index < seen.pools.size(); ++index) add_pending(fleet_, index, tick);
  take_tick(std::move(tick), std::move(seen));
}

std::string PlannerDaemon::unknown_because() const {
  std::string text = fmt::format("the state is unknown: {}", explain(data_));
  if (data_ == signals::DataState::kNoFleet) return text + fmt::format(" ({})", fleet_.unknown_because());
  if (data_ != signals::DataState::kNoGateway) return text;
  return text + fmt::format(" ({})", gateways_.failure());
}

void PlannerDaemon::take_tick(decision::Tick tick, signals::Observation seen) {
  for (decision::DecisionRecord& record : tick.records) {
    log_.write(logging::Event::kDecision, {{"policy", record.policy},
                                           {"mode", mode()},
                                           {"pool", record.pool},
                                           {"current", record.current},
                                           {"target", record.target},
                                           {"reason", decision::to_string(record.reason)},
                                           {"limited_by", decision::to_string(record.limited_by)},
                                           {"cause", record.cause ? decision::to_string(*record.cause) : ""}});
    if (record_) record_(record);
    decisions_.push_back(std::move(record));
    if (decisions_.size() > options_.decisions_max) decisions_.pop_front();
  }
  count_costs();
  seen_ = std::move(seen);
  decided_ = std::move(tick.decision);
  if (leads() && loop_.now() - policy_saved_at_ >= options_.policy_state_interval) save_policy();
}

void PlannerDaemon::count_costs() {
  gpu_costs_.count(loop_.now(), totals(), of_pools(options_, &signals::Pool::name), traffic_.take_tokens());
}

// ---- the policy's state ---------------------------------------------------------------------------------------------

void PlannerDaemon::restore_policy() {
  restores_policy_ = is_in_restore_ = true;
  const auto now = [this] { return loop_.now(); };
  keeper_.restore(control_loop_, gpu_costs_, now, [this] {
    restores_policy_ = false;
    if (!is_in_restore_) tick();
  });
  is_in_restore_ = false;
}

void PlannerDaemon::keep_start_up() {
  const auto measured = [this] {
    std::vector<connect::PoolStartUp> made;
    for (std::size_t pool = 0; pool < options_.pools.size(); ++pool)
      if (const StartUpTimes* times = fleet_.start_up_times(pool); times != nullptr && times->spread())
        made.push_back({options_.pools[pool].name, options_.pools[pool].start_up, times->all()});
    return made;
  };
  // A user who configures another time has changed the engines.
  keeper_.keep_start_up(measured, [this](const std::vector<connect::PoolStartUp>& saved) {
    for (const connect::PoolStartUp& of : saved)
      for (std::size_t pool = 0; pool < options_.pools.size(); ++pool)
        if (options_.pools[pool].name == of.pool && options_.pools[pool].start_up == of.configured)
          if (StartUpTimes* times = fleet_.start_up_times(pool)) times->restore(of.times);
  });
}

void PlannerDaemon::save_policy() {
  policy_saved_at_ = loop_.now();
  // A write would replace what could not be read.
  if (!keeper_.has_read()) return keeper_.restore_again(control_loop_, gpu_costs_, [this] { return loop_.now(); });
  keeper_.save(control_loop_, gpu_costs_.costs());
}

void PlannerDaemon::end(std::function<void()> done) {
  if (std::exchange(is_ending_, true) || !leads()) return done();
  keeper_.save(control_loop_, gpu_costs_.costs(), std::move(done));
}

// ---- several planners -----------------------------------------------------------------------------------------------

std::string PlannerDaemon::followed_because() const {
  const std::string leader = options_.leadership->leader();
  return leader.empty() ? "no planner leads yet" : fmt::format("another planner leads: {}", leader);
}

void PlannerDaemon::look_at_leadership() {
  const bool leads_now = leads();
  if (std::exchange(has_led_, leads_now) == leads_now || options_.leadership == nullptr) return;
  has_decided_ = false;
  if (!leads_now) return targets_.forget();
  control_loop_.take_over();
  const std::uint64_t term = options_.leadership->term();
  if (std::exchange(term_, term) == term) return;
  // Another planner has led: what it learned is newer.
  control_loop_.reset(fresh_policy_);
  restore_policy();
}

// ---- metrics --------------------------------------------------------------------------------------------------------

bool PlannerDaemon::is_uncalibrated(std::size_t pool) const {
  return decided_ && pool < decided_->pools.size() && decision::is_uncalibrated(decided_->pools[pool]);
}

std::vector<report::RoleSwitchCount> PlannerDaemon::role_switches() const {
  std::vector<report::RoleSwitchCount> counts;
  for (std::size_t pool = 0; pool < options_.pools.size() && fleet_.acts(); ++pool)
    if (const auto from = signals::switch_partner(options_.pools, pool))
      counts.push_back({options_.pools[*from].name, options_.pools[pool].name, fleet_.role_switches(pool)});
  return counts;
}

std::string PlannerDaemon::metrics_text(telemetry::ExpositionFormat format) const {
  const auto made = metrics();
  return made ? report::to_prometheus_text(*made, format) : std::string{};
}

std::optional<report::PlannerMetrics> PlannerDaemon::metrics() const {
  if (!seen_ || !decided_) return std::nullopt;
  report::PlannerMetrics metrics{
      .observation = *seen_, .decision = *decided_, .totals = totals(), .slo = options_.slo.target};
  if (!options_.deployment.empty()) metrics.model = options_.model;
  metrics.ticks = tick_times_;
  metrics.version = options_.version;
  metrics.slo_attainment = traffic_.attainment();
  metrics.ttft_attainment = traffic_.ttft_attainment();
  metrics.itl_attainment = traffic_.itl_attainment();
  for (const ScalingTotals& totals : scaling_.totals())
    metrics.scaling.push_back({totals.pool, totals.events, totals.ends});
  metrics.role_switches = role_switches();
  metrics.tenants = gpu_costs_.counted();
  for (std::size_t pool = 0; pool < options_.pools.size(); ++pool)
    if (auto scaling = fleet_.scaling(pool)) metrics.pods.push_back(*std::move(scaling));
  if (!options_.variant_namespace.empty())
    for (std::size_t pool = 0; pool < options_.pools.size(); ++pool) {
      const std::string& name = options_.pools[pool].name;
      metrics.variants.push_back(variant_of(fleet_.annotations(pool), name,
                                            pool < options_.variant_names.size() ? options_.variant_names[pool] : name,
                                            options_.variant_namespace));
    }
  metrics.data = {.state = data_,
                  .gateway_up = gateways_.is_up(),
                  .has_target = has_target(),
                  .replicas_left_out = fleet_.left_out()};
  if (options_.leadership != nullptr) metrics.data->leads = leads();
  if (const auto& gateway = gateways_.state(); gateway && gateway->deferral && options_.deployment.empty()) {
    const GatewayDeferral& seen = *gateway->deferral;
    metrics.deferral = {seen.requests,         seen.next_due_s,     seen.deferred_total,
                        seen.sent_spare_total, seen.sent_due_total, seen.missed_total};
  }
  return metrics;
}

std::vector<connect::RecommendedReplicas> PlannerDaemon::recommended() const {
  std::vector<connect::RecommendedReplicas> pools;
  // A follower gives what the leader has published, so that it does not matter which planner is called.
  const bool follows = !leads() && options_.leadership->follows();
  const auto published =
      follows ? parse_targets(options_.leadership->targets_of_leader()) : std::map<std::string, std::uint32_t>{};
  for (std::size_t pool = 0; pool < options_.pools.size(); ++pool) {
    connect::RecommendedReplicas& made = pools.emplace_back();
    made.pool = options_.pools[pool].name;
    made.model = options_.model;
    if (decided_ && has_target())
      made.replicas = decided_->pools[pool].target;
    else if (const auto of_leader = published.find(made.pool); of_leader != published.end())
      made.replicas = of_leader->second;
    else if (!leads())
      made.unknown_because = followed_because() + (follows ? ", and its target is unknown" : "");
    else if (options_.leadership != nullptr && !has_decided_)
      made.unknown_because = "nothing is decided since this planner leads";
    else
      made.unknown_because = decided_ ? "the target is unknown: " + unknown_because() : "nothing is decided yet";
  }
  return pools;
}

}  // namespace penstock::controller
