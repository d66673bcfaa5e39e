#include "controller/kubernetes_fleet.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <type_traits>
#include <utility>

#include "actuation/step_text.h"
#include "controller/pod_exchange.h"

namespace penstock::controller {
namespace {

constexpr core::Duration kAdvanceInterval = std::chrono::milliseconds{200};
constexpr core::Duration kRetry = std::chrono::seconds{2};       // After a failed write or read.
constexpr core::Duration kSoon = std::chrono::milliseconds{10};  // Changes within this time are seen together.

// Of a write: a Scale, or the DynamoGraphDeployment of a component.
tl::expected<connect::ApiScale, connect::ApiError> parse_answer(const connect::ApiCall& call,
                                                                const connect::ScaleTarget& target,
                                                                const nlohmann::json& answer) {
  if (target.component.empty()) return connect::parse_scale(call, answer);
  if (auto scale = component_scale(target, connect::parse_scaled_object(answer))) return *std::move(scale);
  return tl::make_unexpected(api_error(call, connect::ApiReason::kMalformed, "the answer lacks the component"));
}

}  // namespace

KubernetesFleet::KubernetesFleet(net::Loop& loop, net::Client& client, logging::Log& log,
                                 KubernetesFleetOptions options, std::unique_ptr<connect::KubernetesClient> api)
    : loop_(loop),
      options_(std::move(options)),
      events_(log),
      reports_(loop, events_, options_.in_namespace, options_.api.may_write),
      watch_(loop, client, events_, options_.engines),
      roles_(loop, client, options_.engines.credentials),
      api_(std::move(api)) {}

core::Result<std::unique_ptr<KubernetesFleet>> KubernetesFleet::start(net::Loop& loop, net::Client& client,
                                                                      logging::Log& log,
                                                                      KubernetesFleetOptions options) {
  auto api = connect::KubernetesClient::start(loop, client, options.api, [&log](const std::string& cause) {
    log.write(logging::Event::kActuationWarning, {{"pool", ""}, {"message", cause}});
  });
  if (!api) return tl::make_unexpected(api.error());
  options.engines.in_namespace = options.in_namespace;
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
    made.conflicts.emplace(fleet->api_->random().fork("conflicts").fork(fleet->pools_.size()));
    fleet->watch_targets(made);
  }
  link_partners(fleet->pools_);
  fleet->timer_ = loop.every(kAdvanceInterval, [raw = fleet.get()] { raw->advance(); });
  return fleet;
}

void KubernetesFleet::watch_targets(Pool& pool) {
  const auto watch_one = [this, &pool](const connect::ScaleTarget& target, bool is_adapter) {
    connect::ReflectorOptions options;
    options.resource = target.resource;
    options.in_namespace = options_.in_namespace;
    options.field_selector = "metadata.name=" + target.name;
    connect::Watched<connect::ScaledObject>::Listener listener;
    listener.changed = [this, &pool, is_adapter] {
      if (is_adapter) pool.serves_adapters = true;
      pool.watch_failure.clear();
      if (pool.partner != nullptr) advance_soon();
    };
    listener.failed = [this, &pool, is_adapter](const connect::ApiError& error) {
      if (is_adapter && error.reason == connect::ApiReason::kNotFound) {
        pool.serves_adapters = false;
        return;
      }
      pool.watch_failure = error.message();
      reports_.report(true, pool.configured.name, error.message());
    };
    return std::make_unique<connect::Watched<connect::ScaledObject>>(loop_, *api_, std::move(options),
                                                                     connect::parse_scaled_object, std::move(listener));
  };
  pool.target = watch_one(pool.configured.target, false);
  if (pool.configured.target.component.empty()) return;
  pool.adapter_target = adapter_of(pool.configured.target);
  pool.adapter = watch_one(pool.adapter_target, true);
}

KubernetesFleet::~KubernetesFleet() {
  loop_.cancel(timer_);
  loop_.cancel(soon_);
  for (const auto& pool : pools_) loop_.cancel(pool->retry);
}

template <class T>
std::unique_ptr<connect::Watched<T>> KubernetesFleet::watch(Pool* pool, connect::ReflectorOptions options,
                                                            T (*parse)(const nlohmann::json&)) {
  typename connect::Watched<T>::Listener listener;
  if constexpr (std::is_same_v<T, connect::PodState> || std::is_same_v<T, connect::ReplicaSetState>)
    listener.changed = [this, pool] {
      if constexpr (std::is_same_v<T, connect::PodState>) pool->has_new_pods = true;
      if (pool->partner != nullptr) advance_soon();
    };
  listener.failed = [this, pool](const connect::ApiError& error) {
    reports_.report(true, pool == nullptr ? "" : pool->configured.name, error.message());
  };
  return std::make_unique<connect::Watched<T>>(loop_, *api_, std::move(options), parse, std::move(listener));
}

// ---- observations ---------------------------------------------------------------------------------------------------

void KubernetesFleet::update_gateway(const GatewayState& state, core::Instant at) {
  gateway_ = state.replicas;
  gateway_at_ = at;
}

std::string KubernetesFleet::missing_of(const Pool& pool) const {
  std::string missing = unknown_of(pool, options_.in_namespace, loop_.now());
  if (missing.empty()) missing = age_of(*autoscalers_, "horizontalpodautoscalers", loop_.now());
  if (missing.empty()) missing = age_of(*budgets_, "poddisruptionbudgets", loop_.now());
  if (missing.empty() && pool.sets != nullptr) missing = age_of(*pool.sets, "replicasets", loop_.now());
  return missing;
}

std::string KubernetesFleet::unknown_because() const {
  for (const auto& pool : pools_)
    if (std::string text = unknown_of(*pool, options_.in_namespace, loop_.now()); !text.empty()) return text;
  return {};
}

void KubernetesFleet::read_scale(Pool& pool) {
  const connect::ScaledObject* object = object_of(pool);
  if (object == nullptr || pool.is_reading || pool.writes > 0 || loop_.now() < pool.retry_at) return;
  // Who has set a new number of replicas is to be found before another one is read.
  if (pool.scale && is_current(pool, false)) return;
  const connect::ScaleTarget& target = scaled_target(pool);
  if (!target.component.empty()) {
    const auto scale = component_scale(target, *object);
    if (scale && !connect::is_older_version(object->version, pool.written)) take_scale(pool, *scale);
    return;
  }
  const connect::ApiCall call = connect::get_scale_call(target.resource, options_.in_namespace, target.name);
  pool.is_reading = true;
  api_->request(call, [this, call, &pool](const connect::ApiAnswer& answer) {
    pool.is_reading = false;
    const auto scale = answer ? connect::parse_scale(call, *answer) : tl::make_unexpected(answer.error());
    if (!scale) return take_failure(pool, scale.error());
    pool.failure.clear();
    take_scale(pool, *scale);
    // Before the next tick the object may have changed again.
    if (!is_busy(pool) && missing_of(pool).empty()) act(pool, true);
  });
}

void KubernetesFleet::take_scale(Pool& pool, const connect::ApiScale& scale) {
  pool.scale = scale;
  pool.conflicts->read();
  const std::string selector = pod_selector(pool.configured.target, scale.selector);
  if (pool.selector == selector) return;
  pool.selector = selector;
  pool.pods.reset();
  pool.sets.reset();
  pool.groups.clear();
  if (pool.selector.empty()) return;
  const auto selected = [&](const connect::ApiResource& resource) {
    connect::ReflectorOptions made;
    made.resource = resource;
    made.in_namespace = options_.in_namespace;
    made.label_selector = pool.selector;
    return made;
  };
  pool.pods = watch<connect::PodState>(&pool, selected(connect::kPods), connect::parse_pod);
  if (pool.partner != nullptr)
    pool.sets = watch<connect::ReplicaSetState>(&pool, selected(connect::kReplicaSets), connect::parse_replica_set);
}

// ---- steps ----------------------------------------------------------------------------------------------------------

void KubernetesFleet::advance() {
  unknown_ = routed_without_pool(gateway_, pools_);
  for (const auto& pool : pools_) advance(*pool);
  watch_engines();
}

void KubernetesFleet::advance(Pool& pool) {
  read_scale(pool);
  follow_pods(pool);
  pool.unknown.follow(unknown_, pool.scale && pool.groups.size() >= pool.scale->replicas);
  if (!is_busy(pool)) act(pool, false);
}

bool KubernetesFleet::is_busy(const Pool& pool) const {
  return pool.writes > 0 || pool.is_reading || loop_.now() < pool.retry_at;
}

bool KubernetesFleet::is_current(const Pool& pool, bool has_read) {
  return pool.conflicts->is_current(*pool.scale, object_of(pool)->version, pool.state.known, has_read);
}

void KubernetesFleet::act(Pool& pool, bool has_read) {
  actuation::TargetSeen seen = observe(pool);
  if (seen.missing.empty() && !is_current(pool, has_read)) return;
  const std::optional<std::uint32_t> wanted = exchange(pool, seen);
  actuation::PodAdvance next = actuation::advance(pool.state, wanted, seen, options_.limits, loop_.now());
  reports_.hold(pool, std::move(next.hold));
  for (const actuation::PodStep& step : next.steps) run(pool, step, seen);
  if (wanted && pool.writes == 0)
    for (connect::ApiCall& call : orphan_calls(pool, options_.in_namespace)) patch(pool, std::move(call));
}

void KubernetesFleet::run(Pool& pool, const actuation::PodStep& step, const actuation::TargetSeen& seen) {
  using actuation::PodStepKind;
  if (step.kind == PodStepKind::kScale) return set_scale(pool, step, seen);
  const auto group = pool.groups.find(step.pod);
  const auto replica = pool.replicas.find(step.pod);
  if (group == pool.groups.end() || replica == pool.replicas.end()) return;
  if (step.kind == PodStepKind::kSwitch || step.kind == PodStepKind::kRestore)
    return set_role(pool, step, group->second);
  const bool has_joined = step.kind == PodStepKind::kUnmark && group->second.pod.has_moved &&
                          !std::exchange(replica->second.has_joined, true);
  reports_.step(pool, step,
                has_joined ? sentence(actuation::StepKind::kAdmit, step.pod, actuation::StepReason::kSwitched)
                           : sentence(step.kind, step.pod));
  pool.switches += has_joined ? 1 : 0;
  if (step.kind == PodStepKind::kMove) return move(pool, step, group->second.members.front(), seen);
  std::optional<std::int64_t> cost;
  if (step.kind == PodStepKind::kMark) cost = actuation::kDrainingCost;
  if (step.kind == PodStepKind::kDrained) cost = actuation::kDrainedCost;
  for (const connect::PodIdentity& member : group->second.members)
    patch(pool, connect::mark_pod_call(options_.in_namespace, member, cost));
}

// A pod that Kubernetes makes in the place of one that moves is to be taken away before it starts.
void KubernetesFleet::advance_soon() {
  if (soon_ != 0 || timer_ == 0) return;
  soon_ = loop_.after(kSoon, [this] {
    soon_ = 0;
    advance();
  });
}

std::optional<std::uint32_t> KubernetesFleet::exchange(Pool& pool, actuation::TargetSeen& seen) {
  if (!may_act() || pool.partner == nullptr) return may_act() ? pool.wanted : std::nullopt;
  actuation::TargetSeen of_partner = observe(*pool.partner);
  return exchange_pods(pool, seen, of_partner, loop_.now());
}

// The annotation tells another planner that the engine may have another role than its pool. So it is written before the
// engine is asked to leave that role, and after the engine has got it again.
void KubernetesFleet::set_role(Pool& pool, const actuation::PodStep& step, const connect::PodGroup& group) {
  const connect::PodState& pod = group.pod;
  const bool is_own = step.kind == actuation::PodStepKind::kRestore;
  const signals::Role role = (is_own ? pool : *pool.partner).configured.role;
  const connect::RequestedRole asked{to_string(role), pod.restarts};
  if (roles_.begins(pod.uid, asked)) reports_.step(pool, step, sentence(step.kind, step.pod));
  if (!roles_.has(pod.uid, asked) && (is_own || pod.requested_role == asked)) {
    const auto done = [this, name = pool.configured.name, pod = pod.name](const std::string& failure) {
      if (failure.empty()) return advance_soon();
      reports_.report(true, name, fmt::format("{} could not change its role: {}", pod, failure));
    };
    return roles_.request(pod.uid, url_of(pod, options_.port), watch_.kind_of(pool.replicas.at(pod.name).number), asked,
                          done);
  }
  if (pod.requested_role != asked)
    patch(pool, connect::set_role_call(options_.in_namespace, group.members.front(), asked));
}

void KubernetesFleet::move(Pool& pool, const actuation::PodStep& step, const connect::PodIdentity& pod,
                           const actuation::TargetSeen& seen) {
  auto call = move_call(pool, pod, options_.in_namespace);
  if (call) patch(pool, *std::move(call), [&pool, step, seen] { actuation::moved(pool.state, seen, step); });
}

void KubernetesFleet::set_scale(Pool& pool, const actuation::PodStep& step, const actuation::TargetSeen& seen) {
  const connect::ScaleTarget target = scaled_target(pool);
  connect::ApiCall call =
      target.component.empty()
          ? connect::set_scale_call(target.resource, options_.in_namespace, target.name, step.replicas,
                                    pool.scale->resource_version)
          : connect::set_component_call(target, options_.in_namespace, *object_of(pool), step.replicas);
  call.is_retried = false;  // What is right is computed anew.
  ++pool.writes;
  pool.attempted = step.replicas;
  api_->request(call, [this, call, target, step, seen, &pool](const connect::ApiAnswer& answer) {
    --pool.writes;
    const auto scale = answer ? parse_answer(call, target, *answer) : tl::make_unexpected(answer.error());
    if (!scale && scale.error().reason == connect::ApiReason::kConflict) return take_conflict(pool);
    if (!scale) {
      ++(step.replicas < seen.replicas ? pool.failed_shrinks : pool.failed);
      return take_failure(pool, scale.error());
    }
    pool.failure.clear();
    pool.conflicts->written();
    if (!target.component.empty()) pool.written = scale->resource_version;
    actuation::scaled(pool.state, seen, step);
    take_scale(pool, *scale);
    const std::string text = fmt::format("{} from {} to {} replicas", to_string(target), seen.replicas, step.replicas);
    events_.add(loop_.now(), false, pool.configured.name, text);
    reports_.write_event(pool, false, step.replicas > seen.replicas ? "ScaledUp" : "ScaledDown", "Scale", text);
    events_.log().write(logging::Event::kScaled, {{"pool", pool.configured.name},
                                                  {"target", to_string(target)},
                                                  {"from", seen.replicas},
                                                  {"to", step.replicas}});
  });
}

void KubernetesFleet::patch(Pool& pool, connect::ApiCall call, std::function<void()> done) {
  call.is_retried = false;
  ++pool.writes;
  api_->request(std::move(call), [this, &pool, done = std::move(done)](const connect::ApiAnswer& answer) {
    --pool.writes;
    if (answer) {
      pool.failure.clear();
      if (done) done();
      return;
    }
    // The pod is gone, or another one has its name. Marks concern drains only: without them a pool can grow.
    const connect::ApiReason reason = answer.error().reason;
    if (reason == connect::ApiReason::kNotFound || reason == connect::ApiReason::kConflict) return;
    ++pool.failed_shrinks;
    take_failure(pool, answer.error());
  });
}

// Everything is read again before the next attempt.
void KubernetesFleet::take_failure(Pool& pool, const connect::ApiError& error) {
  pool.retry_at = std::max(pool.retry_at, loop_.now() + std::max(kRetry, error.retry_after.value_or(core::Duration{})));
  if (std::exchange(pool.failure, error.message()) == error.message()) return;
  reports_.report(true, pool.configured.name, error.message());
  reports_.write_event(pool, true, "ScalingFailed", "Scale", error.message());
}

void KubernetesFleet::take_conflict(Pool& pool) {
  const ScaleConflicts::Retry retry = pool.conflicts->conflict(loop_.now());
  if (retry.is_pause) pool.retry_at = loop_.now() + retry.delay;
  loop_.cancel(pool.retry);
  pool.retry = loop_.after(retry.delay, [this, &pool] { advance(pool); });
  if (retry.is_reported) return;
  const connect::ScaledObject* object = object_of(pool);
  const std::string client = object == nullptr ? std::string{} : object->last_writer;
  const std::string text = fmt::format(
      "{} changes {} without a pause, so that no write of the number of replicas succeeds; it is tried again",
      client.empty() ? "another client" : client, to_string(scaled_target(pool)));
  reports_.report(true, pool.configured.name, text);
  reports_.write_event(pool, true, "ScalingFailed", "Scale", text);
}

void KubernetesFleet::forget_targets() {
  for (const auto& pool : pools_) pool->wanted.reset();
}

}  // namespace penstock::controller
