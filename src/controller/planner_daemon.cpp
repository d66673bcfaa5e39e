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
#include "net/fetch.h"
#include "signals/role_switch.h"
#include "telemetry/exposition_writer.h"

namespace penstock::controller {
namespace {

constexpr core::Duration kGatewayTimeout = std::chrono::seconds{2};
constexpr std::uint32_t kPollsPerProbe = 10;
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

// Empty for a response that can be read.
std::string failure_of(const core::Result<net::FetchAnswer>& answer) {
  if (!answer) return answer.error().message();
  return answer->status == 200 ? std::string{} : fmt::format("status {}", answer->status);
}

net::FetchRequest gateway_request(const DaemonOptions& options, std::string path) {
  net::FetchRequest request = net::request_to(options.gateway, std::move(path), kGatewayTimeout);
  if (!options.gateway_authorization.empty())
    request.fields.push_back({"Authorization", options.gateway_authorization});
  if (options.gateway_tls != nullptr) {
    request.call.tls = options.gateway_tls;
    request.call.host = net::parse_url(options.gateway.text())->host;
  }
  return request;
}

// While the connection to the gateway is in use, this request opens another one. It leads to another gateway if the
// address belongs to several.
void probe_gateway(net::Client& client, const DaemonOptions& options, GatewayCursors& cursors) {
  net::FetchRequest request = gateway_request(options, "/penstock/v1/overview");
  request.fields.push_back({"Connection", "close"});
  net::fetch(client, std::move(request), [&cursors](core::Result<net::FetchAnswer> answer) {
    if (!answer || answer->status != 200) return;
    if (const auto state = read_overview(answer->body)) cursors.answered_apart(state->boot);
  });
}

void report_several_gateways(const DaemonOptions& options, core::Instant now, FleetEvents& events) {
  const std::string address = options.gateway.text();
  events.log().write(logging::Event::kSeveralGateways, {{"address", address}});
  events.add(
      now, true, {},
      fmt::format("several gateways answer at {}; the traffic of those that are not reached is unknown", address));
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
      token_costs_(loop.now()),
      traffic_(traffic_options()),
      control_loop_(policy, of_pools(options_, &signals::Pool::price_per_gpu_hour)),
      data_since_(loop.now()),
      events_(log),
      keeper_(options_.policy_store, log, of_pools(options_, &signals::Pool::name)),
      policy_saved_at_(loop.now()) {
  if (options_.leadership == nullptr)
    restore_policy();
  else
    fresh_policy_ = control_loop_.snapshot();
  timers_.push_back(loop_.every(options_.gateway_interval, [this] { request_overview(); }));
  if (fleet_.acts()) {
    timers_.push_back(loop_.after(core::Duration{}, [this] { request_prefixes(); }));
    timers_.push_back(loop_.every(options_.prefix_interval, [this] { request_prefixes(); }));
  }
  timers_.push_back(loop_.every(options_.point_interval, [this] { add_point(); }));
  // The first tick comes with the first data: a policy may decide only once.
  const core::Duration interval = std::min<core::Duration>(policy_->interval(), std::chrono::hours{24});
  timers_.push_back(loop_.every(interval, [this] { tick(); }));
}

PlannerDaemon::~PlannerDaemon() {
  if (!is_ending_ && leads()) save_policy();
  for (const net::Loop::Timer timer : timers_) loop_.cancel(timer);
}

TrafficOptions PlannerDaemon::traffic_options() const {
  const core::Duration memory = std::max(policy_->memory(), kMemoryLeast);
  TrafficOptions made{memory, 100'000, options_.slo, is_disaggregated(options_), options_.model, token_costs_.since()};
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
  options_.gateway_authorization = std::move(options.gateway_authorization);
  options_.gateway_tls = std::move(options.gateway_tls);
  policy_ = policy.get();
  if (const auto restored = control_loop_.replace(*policy_); !restored) keeper_.log_restored(restored);
  reloaded_policy_ = std::move(policy);
  if (!is_judged_anew) return;
  token_costs_.restart(loop_.now(), control_loop_.totals());
  traffic_ = TrafficRecorder{traffic_options()};
  cursors_.restart();
}

// ---- the gateway ----------------------------------------------------------------------------------------------------

// The two requests follow each other on one connection, so that overview and traffic are those of one gateway.
void PlannerDaemon::request_overview() {
  if (traffic_in_flight_ || std::exchange(overview_in_flight_, true)) return;
  const core::Instant requested_at = loop_.now();
  net::fetch(client_, gateway_request(options_, "/penstock/v1/overview"),
             [this, requested_at](core::Result<net::FetchAnswer> answer) {
               overview_in_flight_ = false;
               const std::string failure = failure_of(answer);
               auto state = failure.empty() ? read_overview(answer->body) : core::invalid_input({}, failure);
               report_gateway(overview_failure_, state ? std::string{} : state.error().message());
               if (state) {
                 if (cursors_.answered(state->boot, loop_.now()))
                   report_several_gateways(options_, loop_.now(), events_);
                 gateway_ = *std::move(state);
                 overview_at_ = loop_.now();
                 // The document describes a moment after the request.
                 fleet_.update_gateway(*gateway_, requested_at);
               }
               watch_data();
               request_traffic();
             });
  if (++polls_ % kPollsPerProbe == 0) probe_gateway(client_, options_, cursors_);
}

void PlannerDaemon::report_gateway(std::string& kept, const std::string& failure) {
  kept = failure;
  const std::string& cause = overview_failure_.empty() ? traffic_failure_ : overview_failure_;
  const bool reachable = cause.empty();
  if (gateway_reachable_ == reachable) return;
  gateway_reachable_ = reachable;
  const std::string address = options_.gateway.text();
  if (reachable)
    log_.write(logging::Event::kGatewayReachable, {{"address", address}});
  else
    log_.write(logging::Event::kGatewayUnreachable, {{"address", address}, {"cause", cause}});
}

bool PlannerDaemon::awaits_gateway() const {
  return gateway_reachable_.value_or(true) && !(overview_at_ && traffic_at_);
}

// Whether the planner has data changes between ticks: a policy may decide only every few minutes.
void PlannerDaemon::watch_data() {
  const auto gateway_at = std::min(overview_at_, traffic_at_);  // Empty if one of them is.
  signals::Observation seen = observe(loop_.now());
  const signals::DataLimits limits{options_.gateway_timeout, report::kSampleAgeMax};
  signals::DataState state = signals::data_state(seen, gateway_at, fleet_.acts(), limits);
  if (state != signals::DataState::kNoGateway && !fleet_.unknown_because().empty())
    state = signals::DataState::kNoFleet;
  const bool decided = signals::can_decide(data_);
  if (std::exchange(data_, state) != state) data_since_ = seen.now;
  had_data_ = had_data_ || state == signals::DataState::kKnown;
  if (awaits_gateway()) return;
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

void PlannerDaemon::request_traffic() {
  traffic_in_flight_ = true;
  net::FetchRequest request = gateway_request(options_, fmt::format("/penstock/v1/traffic?after={}", cursors_.after()));
  request.answer_bytes_max = 256 * 1024 * 1024;
  net::fetch(client_, std::move(request), [this, after = cursors_.after()](core::Result<net::FetchAnswer> answer) {
    traffic_in_flight_ = false;
    const std::string failure = failure_of(answer);
    const auto page = failure.empty() ? read_traffic(answer->body) : core::invalid_input({}, failure);
    report_gateway(traffic_failure_, page ? std::string{} : page.error().message());
    if (!page) return;
    traffic_at_ = loop_.now();
    if (!reported_data_) watch_data();
    if (cursors_.answered(page->boot, loop_.now())) report_several_gateways(options_, loop_.now(), events_);
    // It is requested again with the next poll, from where this gateway's pages have ended.
    if (!cursors_.take(after, page->next)) return;
    traffic_.take(*page, loop_.now());
    observe_scaling();
  });
}

void PlannerDaemon::observe_scaling() {
  std::vector<signals::PoolObservation> pools(options_.pools.size());
  for (std::size_t index = 0; index < pools.size(); ++index) {
    pools[index].name = options_.pools[index].name;
    fleet_.fill(index, pools[index]);
  }
  scaling_.observe(loop_.now(), pools, traffic_.ends());
}

void PlannerDaemon::request_prefixes() {
  if (std::exchange(prefixes_in_flight_, true)) return;
  net::FetchRequest request = gateway_request(options_, "/penstock/v1/prefixes");
  request.answer_bytes_max = 64 * 1024 * 1024;
  net::fetch(client_, std::move(request), [this](core::Result<net::FetchAnswer> answer) {
    prefixes_in_flight_ = false;
    if (!answer || answer->status != 200) return;
    if (auto prefixes = read_prefixes(answer->body)) fleet_.hot_prefixes(*std::move(prefixes));
  });
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
        gateway_ ? gateway_->waiting_for(options_.model, has_own ? pool.name : "") : GatewayWaiting{};
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
  if (awaits_gateway() || restores_policy_ || is_ending_) return;
  const TickTimer timer{tick_times_};
  signals::Observation seen = observe(loop_.now());
  // Missing traffic looks like no traffic: the policy must not see it.
  if (!has_led_ || !signals::can_decide(data_)) {
    decision::Tick held =
        has_led_ ? control_loop_.hold(seen, unknown_because()) : control_loop_.follow(seen, followed_because());
    if (options_.on_hold) options_.on_hold();
    return take_tick(std::move(held), std::move(seen));
  }
  const core::Instant from =
      seen.now.time_since_epoch() > policy_->memory() ? seen.now - policy_->memory() : core::kStart;
  seen.recent = traffic_.recent(from);
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
  const std::string& failure = overview_failure_.empty() ? traffic_failure_ : overview_failure_;
  return text + fmt::format(" ({}{}{})", options_.gateway.text(), failure.empty() ? "" : ": ", failure);
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
  seen_ = std::move(seen);
  decided_ = std::move(tick.decision);
  if (leads() && loop_.now() - policy_saved_at_ >= options_.policy_state_interval) save_policy();
}

// ---- the policy's state ---------------------------------------------------------------------------------------------

void PlannerDaemon::restore_policy() {
  restores_policy_ = is_in_restore_ = true;
  const auto now = [this] { return loop_.now(); };
  keeper_.restore(control_loop_, now, [this] {
    restores_policy_ = false;
    if (!is_in_restore_) tick();
  });
  is_in_restore_ = false;
}

void PlannerDaemon::save_policy() {
  policy_saved_at_ = loop_.now();
  keeper_.save(control_loop_);
}

void PlannerDaemon::end(std::function<void()> done) {
  if (std::exchange(is_ending_, true) || !leads()) return done();
  keeper_.save(control_loop_, std::move(done));
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
  if (traffic_.judged() > 0)
    metrics.slo_attainment = static_cast<double>(traffic_.met()) / static_cast<double>(traffic_.judged());
  for (const ScalingTotals& totals : scaling_.totals())
    metrics.scaling.push_back({totals.pool, totals.events, totals.ends});
  metrics.role_switches = role_switches();
  for (std::size_t pool = 0; pool < options_.pools.size(); ++pool)
    if (auto scaling = fleet_.scaling(pool)) metrics.pods.push_back(*std::move(scaling));
  if (!options_.variant_namespace.empty())
    for (std::size_t pool = 0; pool < options_.pools.size(); ++pool) {
      const std::string& name = options_.pools[pool].name;
      metrics.variants.push_back(variant_of(fleet_.annotations(pool), name,
                                            pool < options_.variant_names.size() ? options_.variant_names[pool] : name,
                                            options_.variant_namespace));
    }
  metrics.data = {
      .state = data_, .gateway_up = gateway_up(), .has_target = has_target(), .replicas_left_out = fleet_.left_out()};
  if (options_.leadership != nullptr) metrics.data->leads = leads();
  if (gateway_ && gateway_->deferral && options_.deployment.empty()) {
    const GatewayDeferral& seen = *gateway_->deferral;
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
