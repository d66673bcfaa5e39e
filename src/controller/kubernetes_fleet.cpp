#include "controller/kubernetes_fleet.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "net/address.h"

namespace penstock::controller {
namespace {

constexpr core::Duration kAdvanceInterval = std::chrono::milliseconds{200};
constexpr core::Duration kRetry = std::chrono::seconds{2};  // After a failed write or read.

const char* stage_of(const connect::PodState& pod) {
  if (pod.is_terminating) return "terminating";
  if (pod.is_marked) return "draining";
  if (pod.node.empty()) return "pending";
  return pod.is_ready ? "serving" : "starting";
}

// Why the copy of the objects of a watch cannot be used; empty: it can.
template <class T>
std::string age_of(const connect::Watched<T>& watched, std::string_view what, core::Instant now) {
  if (!watched.is_stale()) return {};
  if (!watched.confirmed_at()) return fmt::format("{}: the API server has not answered yet", what);
  return fmt::format("{}: the API server has confirmed nothing for {:.0f} min", what,
                     core::to_seconds(now - *watched.confirmed_at()) / 60.0);
}

}  // namespace

KubernetesFleet::KubernetesFleet(net::Loop& loop, net::Client& client, logging::Log& log,
                                 KubernetesFleetOptions options, std::unique_ptr<connect::KubernetesClient> api)
    : loop_(loop),
      options_(std::move(options)),
      events_(log),
      watch_(loop, client, events_, options_.engines),
      api_(std::move(api)) {}

core::Result<std::unique_ptr<KubernetesFleet>> KubernetesFleet::start(net::Loop& loop, net::Client& client,
                                                                      logging::Log& log,
                                                                      KubernetesFleetOptions options) {
  auto api = connect::KubernetesClient::start(loop, client, options.api, [&log](const std::string& cause) {
    log.write(logging::Event::kActuationWarning, {{"pool", ""}, {"message", cause}});
  });
  if (!api) return tl::make_unexpected(api.error());
  std::unique_ptr<KubernetesFleet> fleet{new KubernetesFleet{loop, client, log, std::move(options), *std::move(api)}};
  const auto all_of = [&](const connect::ApiResource& resource) {
    connect::ReflectorOptions made;
    made.resource = resource;
    made.in_namespace = fleet->options_.in_namespace;
    return made;
  };
  fleet->autoscalers_ = fleet->watch<connect::HorizontalAutoscaler>(nullptr, all_of(connect::kHorizontalAutoscalers),
                                                                    connect::parse_horizontal_autoscaler);
  fleet->budgets_ = fleet->watch<connect::DisruptionBudget>(nullptr, all_of(connect::kDisruptionBudgets),
                                                            connect::parse_disruption_budget);
  for (const KubernetesPool& pool : fleet->options_.pools) {
    Pool& made = *fleet->pools_.emplace_back(std::make_unique<Pool>());
    made.configured = pool;
    connect::ReflectorOptions target = all_of(pool.target.resource);
    target.field_selector = "metadata.name=" + pool.target.name;
    made.target = fleet->watch<connect::ScaledObject>(&made, std::move(target), connect::parse_scaled_object);
  }
  fleet->timer_ = loop.every(kAdvanceInterval, [raw = fleet.get()] { raw->advance(); });
  return fleet;
}

KubernetesFleet::~KubernetesFleet() { loop_.cancel(timer_); }

template <class T>
std::unique_ptr<connect::Watched<T>> KubernetesFleet::watch(Pool* pool, connect::ReflectorOptions options,
                                                            T (*parse)(const nlohmann::json&)) {
  typename connect::Watched<T>::Listener listener;
  listener.changed = [] {};
  listener.failed = [this, pool](const connect::ApiError& error) {
    report(true, pool == nullptr ? "" : pool->configured.name, error.message());
  };
  return std::make_unique<connect::Watched<T>>(loop_, *api_, std::move(options), parse, std::move(listener));
}

void KubernetesFleet::report(bool warning, const std::string& pool, const std::string& text) {
  events_.add(loop_.now(), warning, pool, text);
  events_.log().write(warning ? logging::Event::kActuationWarning : logging::Event::kActuation,
                      {{"pool", pool}, {"message", text}});
}

// ---- observations ---------------------------------------------------------------------------------------------------

void KubernetesFleet::update_gateway(const GatewayState& state, core::Instant at) {
  gateway_ = state.replicas;
  gateway_at_ = at;
}

const connect::ScaledObject* KubernetesFleet::object_of(const Pool& pool) const {
  const auto& found = pool.target->all();
  return found.empty() ? nullptr : &found.begin()->second;
}

std::string KubernetesFleet::unknown_of(const Pool& pool) const {
  const core::Instant now = loop_.now();
  const std::string target = to_string(pool.configured.target);
  if (std::string age = age_of(*pool.target, target, now); !age.empty()) return age;
  if (object_of(pool) == nullptr)
    return fmt::format("{} does not exist in the namespace \"{}\"", target, options_.in_namespace);
  if (!pool.scale)
    return fmt::format("the scale of {} is not known{}{}", target, pool.failure.empty() ? "" : ": ", pool.failure);
  if (pool.pods == nullptr) return fmt::format("the scale of {} has no selector of pods", target);
  return age_of(*pool.pods, "pods of " + target, now);
}

std::string KubernetesFleet::missing_of(const Pool& pool) const {
  std::string missing = unknown_of(pool);
  if (missing.empty()) missing = age_of(*autoscalers_, "horizontalpodautoscalers", loop_.now());
  if (missing.empty()) missing = age_of(*budgets_, "poddisruptionbudgets", loop_.now());
  return missing;
}

std::string KubernetesFleet::unknown_because() const {
  for (const auto& pool : pools_)
    if (std::string text = unknown_of(*pool); !text.empty()) return text;
  return {};
}

void KubernetesFleet::read_scale(Pool& pool) {
  const connect::ScaledObject* object = object_of(pool);
  if (object == nullptr || pool.is_reading || pool.writes > 0 || loop_.now() < pool.retry_at) return;
  if (pool.scale && pool.scale->resource_version == object->version) return;
  const connect::ScaleTarget& target = pool.configured.target;
  const connect::ApiCall call = connect::get_scale_call(target.resource, options_.in_namespace, target.name);
  pool.is_reading = true;
  api_->request(call, [this, call, &pool](const connect::ApiAnswer& answer) {
    pool.is_reading = false;
    const auto scale = answer ? connect::parse_scale(call, *answer) : tl::make_unexpected(answer.error());
    if (!scale) return take_failure(pool, scale.error());
    pool.failure.clear();
    take_scale(pool, *scale);
  });
}

void KubernetesFleet::take_scale(Pool& pool, const connect::ApiScale& scale) {
  pool.scale = scale;
  if (pool.selector == scale.selector) return;
  pool.selector = scale.selector;
  pool.pods.reset();
  if (pool.selector.empty()) return;
  connect::ReflectorOptions pods;
  pods.resource = connect::kPods;
  pods.in_namespace = options_.in_namespace;
  pods.label_selector = pool.selector;
  pool.pods = watch<connect::PodState>(&pool, std::move(pods), connect::parse_pod);
}

// A container that crashes again and again runs in between, so only readiness ends the time for which a pod with a node
// cannot start.
void KubernetesFleet::follow_start(const connect::PodState& pod, Replica& replica) const {
  const bool has_node = !pod.node.empty();
  if (pod.is_ready || (has_node && !replica.blocked_with_node)) replica.blocked_by.clear();
  if (pod.blocked_by.empty() || pod.is_ready) return;
  if (replica.blocked_by.empty()) replica.blocked_since = loop_.now();
  replica.blocked_by = pod.blocked_by;
  replica.blocked_with_node = has_node;
}

void KubernetesFleet::follow_pods(Pool& pool) {
  if (pool.pods == nullptr || !pool.pods->confirmed_at()) return;
  const core::Instant now = loop_.now();
  const auto log_stage = [&](const std::string& name, const std::string& from, std::string_view to) {
    events_.log().write(logging::Event::kReplicaState,
                        {{"pool", pool.configured.name}, {"replica", name}, {"from", from}, {"to", to}});
  };
  std::map<std::string, Replica> next;
  for (const auto& [key, pod] : pool.pods->all()) {
    if (pod.has_ended) continue;
    Replica replica;
    if (const auto known = pool.replicas.find(pod.name); known != pool.replicas.end() && known->second.uid == pod.uid)
      replica = known->second;
    else
      replica.number = next_number_++;
    replica.uid = pod.uid;
    const std::string stage = stage_of(pod);
    if (stage != replica.stage) {
      log_stage(pod.name, replica.stage, stage);
      replica.stage = stage;
      replica.since = now;
    }
    if (pod.is_marked != std::exchange(replica.is_marked, pod.is_marked)) replica.marked_since = now;
    follow_start(pod, replica);
    if (pod.is_ready && !std::exchange(replica.is_ready, true) && pod.restarts == 0 && pod.created_s && pod.ready_s)
      pool.start_up.add(std::chrono::seconds{std::max<std::int64_t>(0, *pod.ready_s - *pod.created_s)});
    next.emplace(pod.name, std::move(replica));
  }
  for (const auto& [name, replica] : pool.replicas)
    if (!next.contains(name)) log_stage(name, replica.stage, "gone");
  pool.replicas = std::move(next);
}

std::string KubernetesFleet::url_of(const connect::PodState& pod) const {
  const auto address = net::Address::parse(pod.address, options_.port);
  return address ? "http://" + address->text() : std::string{};
}

void KubernetesFleet::watch_engines() {
  std::vector<WatchedEngine> engines;
  for (const auto& pool : pools_) {
    if (pool->pods == nullptr) continue;
    for (const auto& [key, pod] : pool->pods->all()) {
      const auto replica = pool->replicas.find(pod.name);
      // One that was never ready has no metrics yet.
      if (replica == pool->replicas.end() || !replica->second.is_ready || url_of(pod).empty()) continue;
      const auto listed = gateway_.find(pod.name);
      engines.push_back({replica->second.number, url_of(pod),
                         listed == gateway_.end() ? std::vector<std::string>{} : listed->second.fpm, pod.name,
                         pod.is_terminating});
    }
  }
  watch_.watch(engines);
}

actuation::PodSeen KubernetesFleet::observe(const connect::PodState& pod, const Replica& replica) const {
  actuation::PodSeen seen;
  seen.name = pod.name;
  seen.is_scheduled = !pod.node.empty();
  seen.is_ready = pod.is_ready;
  seen.is_marked = pod.is_marked;
  seen.marked_since = replica.marked_since;
  seen.deletion_cost = pod.deletion_cost;
  seen.created_s = pod.created_s.value_or(0);
  seen.revision = pod.revision;
  seen.blocked_by = replica.blocked_by;
  seen.blocked_since = replica.blocked_since;
  if (const auto listed = gateway_.find(pod.name); listed != gateway_.end() && gateway_at_)
    seen.gateway = actuation::GatewaySeen{*gateway_at_, listed->second.eligible, listed->second.open_requests};
  if (const auto sample = watch_.sample_of(replica.number))
    seen.engine = actuation::EngineSeen{sample->sampled_at, true,
                                        actuation::OpenWork{sample->queued_requests + sample->running_requests, 0}};
  return seen;
}

actuation::TargetSeen KubernetesFleet::observe(const Pool& pool) const {
  actuation::TargetSeen seen;
  seen.missing = missing_of(pool);
  if (!seen.missing.empty()) return seen;
  const connect::ScaledObject& object = *object_of(pool);
  seen.replicas = pool.scale->replicas;
  seen.is_ordered = pool.configured.target.is_ordered;
  seen.is_own_write =
      std::find(object.writers.begin(), object.writers.end(), connect::kFieldManager) != object.writers.end();
  if (!object.writers.empty()) seen.writer = object.writers.back();
  seen.gateway_at = gateway_at_;
  for (const auto& [key, autoscaler] : autoscalers_->all())
    if (scales(autoscaler, pool.configured.target)) seen.autoscaler = autoscaler.title;
  for (const auto& [key, pod] : pool.pods->all()) {
    const auto replica = pool.replicas.find(pod.name);
    if (replica != pool.replicas.end() && !pod.is_terminating && !pod.has_ended)
      seen.pods.push_back(observe(pod, replica->second));
  }
  for (const auto& [key, budget] : budgets_->all()) {
    const bool selects_one = std::any_of(pool.pods->all().begin(), pool.pods->all().end(), [&](const auto& each) {
      return !budget.selects_none && budget.selector.selects(each.second.labels);
    });
    if (selects_one) seen.budgets.push_back({budget.name, budget.allowed, budget.version});
  }
  return seen;
}

// ---- steps ----------------------------------------------------------------------------------------------------------

void KubernetesFleet::advance() {
  for (const auto& pool : pools_) advance(*pool);
  watch_engines();
}

void KubernetesFleet::advance(Pool& pool) {
  read_scale(pool);
  follow_pods(pool);
  if (pool.writes > 0 || pool.is_reading || loop_.now() < pool.retry_at) return;
  const actuation::TargetSeen seen = observe(pool);
  // What was read is not the newest state any more.
  if (seen.missing.empty() && pool.scale->resource_version != object_of(pool)->version) return;
  actuation::PodAdvance next =
      actuation::advance(pool.state, may_act() ? pool.wanted : std::nullopt, seen, options_.limits, loop_.now());
  take_hold(pool, std::move(next.hold));
  for (const actuation::PodStep& step : next.steps) run(pool, step, seen);
}

void KubernetesFleet::take_hold(Pool& pool, actuation::PodHold hold) {
  using actuation::HoldCause;
  // The time without data grows in its text.
  const bool is_same = pool.hold.cause == hold.cause && pool.hold.by == hold.by;
  const actuation::PodHold before = std::exchange(pool.hold, std::move(hold));
  if (is_same && (pool.hold.text == before.text || pool.hold.cause == HoldCause::kNoData)) return;
  // A drain is no reason to act, and a planner that starts knows nothing yet.
  const auto is_shown = [&](HoldCause cause) {
    return cause != HoldCause::kNone && cause != HoldCause::kDraining && (cause != HoldCause::kNoData || pool.scale);
  };
  const std::string& name = pool.configured.name;
  if (is_shown(pool.hold.cause)) {
    events_.add(loop_.now(), true, name, pool.hold.text);
    write_event(pool, true, "ScalingHeld", "Hold", pool.hold.text);
    events_.log().write(logging::Event::kPoolHeld, {{"pool", name},
                                                    {"cause", actuation::to_string(pool.hold.cause)},
                                                    {"by", pool.hold.by},
                                                    {"message", pool.hold.text}});
  } else if (is_shown(before.cause)) {
    events_.add(loop_.now(), false, name, "the planner scales again");
    write_event(pool, false, "ScalingResumed", "Resume", "the planner scales again");
    events_.log().write(logging::Event::kPoolReleased,
                        {{"pool", name}, {"cause", actuation::to_string(before.cause)}, {"by", before.by}});
  }
}

void KubernetesFleet::run(Pool& pool, const actuation::PodStep& step, const actuation::TargetSeen& seen) {
  using actuation::PodStepKind;
  if (step.kind == PodStepKind::kScale) return set_scale(pool, step, seen);
  const auto pod = std::find_if(pool.pods->all().begin(), pool.pods->all().end(),
                                [&](const auto& each) { return each.second.name == step.pod; });
  if (pod == pool.pods->all().end()) return;
  events_.add(loop_.now(), false, pool.configured.name, fmt::format("{} {}", to_string(step.kind), step.pod));
  events_.log().write(logging::Event::kReplicaStep,
                      {{"pool", pool.configured.name}, {"replica", step.pod}, {"step", to_string(step.kind)}});
  switch (step.kind) {
    case PodStepKind::kMark: return patch(pool, pod->second, actuation::kDrainingCost);
    case PodStepKind::kDrained: return patch(pool, pod->second, actuation::kDrainedCost);
    default: return patch(pool, pod->second, std::nullopt);
  }
}

void KubernetesFleet::set_scale(Pool& pool, const actuation::PodStep& step, const actuation::TargetSeen& seen) {
  const connect::ScaleTarget& target = pool.configured.target;
  connect::ApiCall call = connect::set_scale_call(target.resource, options_.in_namespace, target.name, step.replicas,
                                                  pool.scale->resource_version);
  call.is_retried = false;  // What is right is computed anew.
  ++pool.writes;
  api_->request(call, [this, call, step, seen, &pool](const connect::ApiAnswer& answer) {
    --pool.writes;
    const auto scale = answer ? connect::parse_scale(call, *answer) : tl::make_unexpected(answer.error());
    if (!scale && scale.error().reason == connect::ApiReason::kConflict) {
      ++pool.conflicts;
      return pool.scale.reset();
    }
    if (!scale) return take_failure(pool, scale.error());
    pool.failure.clear();
    actuation::scaled(pool.state, seen, step);
    take_scale(pool, *scale);
    const std::string text =
        fmt::format("{} from {} to {} replicas", to_string(pool.configured.target), seen.replicas, step.replicas);
    events_.add(loop_.now(), false, pool.configured.name, text);
    write_event(pool, false, step.replicas > seen.replicas ? "ScaledUp" : "ScaledDown", "Scale", text);
    events_.log().write(logging::Event::kScaled, {{"pool", pool.configured.name},
                                                  {"target", to_string(pool.configured.target)},
                                                  {"from", seen.replicas},
                                                  {"to", step.replicas}});
  });
}

void KubernetesFleet::patch(Pool& pool, const connect::PodState& pod, std::optional<std::int64_t> deletion_cost) {
  connect::ApiCall call = connect::mark_pod_call(options_.in_namespace, pod, deletion_cost);
  call.is_retried = false;
  ++pool.writes;
  api_->request(std::move(call), [this, &pool](const connect::ApiAnswer& answer) {
    --pool.writes;
    if (answer) return pool.failure.clear();
    // The pod is gone, or another one has its name.
    const connect::ApiReason reason = answer.error().reason;
    if (reason != connect::ApiReason::kNotFound && reason != connect::ApiReason::kConflict)
      take_failure(pool, answer.error());
  });
}

// Everything is read again before the next attempt.
void KubernetesFleet::take_failure(Pool& pool, const connect::ApiError& error) {
  ++pool.failed;
  pool.retry_at = loop_.now() + kRetry;
  if (std::exchange(pool.failure, error.message()) == error.message()) return;
  report(true, pool.configured.name, error.message());
  write_event(pool, true, "ScalingFailed", "Scale", error.message());
}

void KubernetesFleet::forget_targets() {
  for (const auto& pool : pools_) pool->wanted.reset();
}

// ---- events ---------------------------------------------------------------------------------------------------------

std::optional<connect::ObjectReference> KubernetesFleet::reference_of(const Pool& pool) const {
  const connect::ScaledObject* object = object_of(pool);
  if (object == nullptr) return std::nullopt;
  const connect::ScaleTarget& target = pool.configured.target;
  const std::string& group = target.resource.group;
  return connect::ObjectReference{(group.empty() ? "" : group + "/") + target.resource.version,
                                  connect::kind_of(target), options_.in_namespace, target.name, object->uid};
}

void KubernetesFleet::write_event(const Pool& pool, bool warning, const char* reason, const char* action,
                                  const std::string& note) {
  const auto object = reference_of(pool);
  if (writer_ == nullptr || !object || !may_act()) return;
  writer_->write({*object, warning, reason, action, note});
}

// ---- for the planner ------------------------------------------------------------------------------------------------

signals::ReplicaState KubernetesFleet::state_of(const connect::PodState& pod) const {
  if (pod.is_terminating || pod.is_marked) return signals::ReplicaState::kDraining;
  const auto listed = gateway_.find(pod.name);
  // A replica that the gateway finds unhealthy takes no traffic, as if it were still starting.
  const bool is_healthy = listed == gateway_.end() || listed->second.healthy;
  return pod.is_ready && is_healthy ? signals::ReplicaState::kReady : signals::ReplicaState::kStarting;
}

void KubernetesFleet::fill(std::size_t index, signals::PoolObservation& seen) const {
  const Pool& pool = *pools_[index];
  if (const auto spread = pool.start_up.spread()) seen.start_up = spread->median;
  seen.actions_failed_total = pool.failed;
  if (pool.scale) {
    const bool is_own = pool.wanted && may_act() && pool.hold.cause != actuation::HoldCause::kManual &&
                        pool.hold.cause != actuation::HoldCause::kAutoscaler;
    seen.target_replicas = is_own ? *pool.wanted : pool.scale->replicas;
  }
  add_replicas(replicas(index), seen);
}

std::vector<ReplicaView> KubernetesFleet::replicas(std::size_t index) const {
  const Pool& pool = *pools_[index];
  std::vector<ReplicaView> views;
  if (pool.pods == nullptr) return views;
  for (const auto& [key, pod] : pool.pods->all()) {
    const auto found = pool.replicas.find(pod.name);
    if (found == pool.replicas.end() || pod.has_ended) continue;
    const Replica& replica = found->second;
    const auto listed = gateway_.find(pod.name);
    views.push_back({pod.name,
                     replica.stage,
                     url_of(pod),
                     replica.since,
                     {replica.number, state_of(pod), replica.since, watch_.sample_of(replica.number)},
                     watch_.messages_of(replica.number),
                     listed == gateway_.end() ? std::string{} : listed->second.model});
  }
  return views;
}

std::vector<connect::VariantAnnotations> KubernetesFleet::annotations(std::size_t index) const {
  const Pool& pool = *pools_[index];
  std::vector<connect::VariantAnnotations> made;
  for (const auto& [key, autoscaler] : autoscalers_->all())
    if (autoscaler.annotations && scales(autoscaler, pool.configured.target)) made.push_back(*autoscaler.annotations);
  if (const connect::ScaledObject* object = object_of(pool)) {
    made.push_back(object->annotations);
    made.back().object = to_string(pool.configured.target);
  }
  return made;
}

std::optional<report::PodScaling> KubernetesFleet::scaling(std::size_t index) const {
  const Pool& pool = *pools_[index];
  report::PodScaling made;
  made.pool = pool.configured.name;
  made.held_by_cause = actuation::to_string(pool.hold.cause);
  made.held_by = pool.hold.by;
  if (pool.scale) made.asked = pool.scale->replicas;
  if (pool.pods != nullptr)
    for (const auto& [key, pod] : pool.pods->all())
      made.pending += !pod.has_ended && (pod.node.empty() || !pod.blocked_by.empty()) ? 1 : 0;
  made.conflicts = pool.conflicts;
  if (const auto spread = pool.start_up.spread())
    made.start_up_s = {{"median", core::to_seconds(spread->median)},
                       {"shortest", core::to_seconds(spread->shortest)},
                       {"longest", core::to_seconds(spread->longest)}};
  return made;
}

}  // namespace penstock::controller
