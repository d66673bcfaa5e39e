// Replicas that are pods of Kubernetes, scaled through the subresource /scale of the objects that own them.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actuation/pod_scaling.h"
#include "actuation/role_switch.h"
#include "connect/kubernetes/client.h"
#include "connect/kubernetes/pod_groups.h"
#include "connect/kubernetes/pods.h"
#include "connect/kubernetes/replica_sets.h"
#include "connect/kubernetes/scale_target.h"
#include "connect/kubernetes/watched.h"
#include "controller/engine_watch.h"
#include "controller/fleet.h"
#include "controller/replica_start.h"
#include "controller/scale_conflicts.h"
#include "controller/start_up_times.h"
#include "controller/unknown_replicas.h"
#include "core/result.h"
#include "net/client.h"
#include "net/loop.h"

namespace penstock::controller {

struct KubernetesPool {
  std::string name;
  connect::ScaleTarget target;
  std::uint32_t gpus = 1;    // Of one replica. Pods that request another number are reported.
  bool single_node = false;  // Replicas whose pods are on several nodes are reported.
  // A pod that has a node and was never Ready cannot start after this time, or after the longest that was learned.
  core::Duration start_up = std::chrono::minutes{2};
  signals::Role role = signals::Role::kAggregated;
  // Pods of the partner may come here and change their role. Both targets are Deployments then.
  std::optional<actuation::RoleSwitch> role_switch{};
};

struct KubernetesFleetOptions {
  // Its may_write: while it returns false, nothing is done. Empty: this planner has no Lease, so that another one may
  // run beside it.
  connect::KubernetesOptions api;
  std::string in_namespace;   // Of all targets.
  std::uint16_t port = 8000;  // Of the engine in each pod.
  std::vector<KubernetesPool> pools;
  EngineWatchOptions engines;
  actuation::PodLimits limits;
  // The kubelet needs time beyond the grace period of a pod to end its containers and to report that. A pod that is
  // still there after it does not count as draining.
  core::Duration termination_margin = std::chrono::seconds{30};
};

// A pod, or a group of pods, that a fleet follows.
struct FollowedReplica {
  std::uint32_t number = 0;
  std::string uid, stage;
  core::Instant since, marked_since;
  bool is_ready = false;  // It was, at some time.
  bool is_new = false;    // It was not Ready when it was first seen, and is not of the first list.
  bool is_marked = false;
  ReplicaStart start;
  bool is_checked = false;  // Its nodes.
  // Of an engine that changes its role.
  std::optional<connect::RequestedRole> asked{}, role{};  // The role that it is to take, and that it has taken.
  bool is_asking = false;                                 // A request is in flight.
  core::Instant ask_at{};                                 // Not before.
  std::string role_failure{};                             // Reported once.
  bool has_joined = false;                                // It came from the other pool, and does not serve yet.
};

// The pods that the selector of a target's scale selects are its replicas, and the gateway knows them by their names. A
// group of a LeaderWorkerSet is one replica with the name and the address of its leader.
// Targets, pods, autoscalers and disruption budgets are watched. What to do is computed by actuation/pod_scaling.h from
// what the API server has confirmed lately; without that nothing is done. All that must survive a restart is in the
// API server: the number of replicas, the marks on pods, and the roles that their engines were asked to take. Lives on
// one loop; advances a few times a second.
class KubernetesFleet final : public Fleet {
 public:
  [[nodiscard]] static core::Result<std::unique_ptr<KubernetesFleet>> start(net::Loop& loop, net::Client& client,
                                                                            logging::Log& log,
                                                                            KubernetesFleetOptions options);
  ~KubernetesFleet() override;
  KubernetesFleet(const KubernetesFleet&) = delete;
  KubernetesFleet& operator=(const KubernetesFleet&) = delete;

  // What is done to a target, and why nothing is done, becomes an event on it. The writer outlives the fleet.
  void write_events(connect::EventWriter& writer) { writer_ = &writer; }

  [[nodiscard]] bool acts() const override { return true; }
  void forget_targets() override;
  [[nodiscard]] std::optional<connect::ObjectReference> target_object(std::size_t pool) const override {
    return reference_of(*pools_[pool]);
  }
  [[nodiscard]] std::string unknown_because() const override;
  void set_target(std::size_t pool, std::uint32_t replicas) override { pools_[pool]->wanted = replicas; }
  [[nodiscard]] std::uint64_t role_switches(std::size_t pool) const override { return pools_[pool]->switches; }
  void update_gateway(const GatewayState& state, core::Instant at) override;
  void recent_prompts(std::vector<std::uint32_t>) override {}
  void hot_prefixes(std::vector<GatewayPrefix>) override {}
  void fill(std::size_t pool, signals::PoolObservation& seen) const override;
  [[nodiscard]] std::vector<ReplicaView> replicas(std::size_t pool) const override;
  [[nodiscard]] std::optional<telemetry::TokenFigures> tokens_of(std::uint32_t replica,
                                                                 double kv_bytes_per_token) const override {
    return watch_.tokens_of(replica, kv_bytes_per_token);
  }
  [[nodiscard]] const std::vector<FleetEvent>& events() const override { return events_.all(); }
  [[nodiscard]] std::optional<report::PodScaling> scaling(std::size_t pool) const override;
  [[nodiscard]] std::vector<connect::VariantAnnotations> annotations(std::size_t pool) const override;

 private:
  struct Pool {
    KubernetesPool configured;
    std::optional<std::uint32_t> wanted;
    actuation::PodScaling state;
    actuation::PodHold hold;
    std::optional<connect::ApiScale> scale;  // As last read.
    std::string written;                     // Version of the last own write of a DynamoGraphDeployment.
    std::string selector;                    // Of `pods`.
    std::unique_ptr<connect::Watched<connect::ScaledObject>> target;
    std::unique_ptr<connect::Watched<connect::ScaledObject>> adapter;  // Of a component of a DynamoGraphDeployment.
    connect::ScaleTarget adapter_target;
    bool serves_adapters = true;  // The API server does; otherwise there is no adapter.
    std::string watch_failure;    // Why one of the two is not known.
    std::unique_ptr<connect::Watched<connect::PodState>> pods;
    bool has_new_pods = false, has_listed = false, is_reading = false;
    std::map<std::string, connect::PodGroup> groups;  // Of `pods`, by name.
    UnknownReplicas unknown;
    std::map<std::string, FollowedReplica> replicas;  // By name.
    StartUpTimes start_up;
    std::size_t writes = 0;  // In flight.
    core::Instant retry_at;  // After a failure.
    std::string failure;     // Reported once.
    std::uint64_t failed = 0, failed_shrinks = 0;
    std::optional<std::uint32_t> attempted;   // Replicas of the last write, whether it was answered or not.
    std::optional<ScaleConflicts> conflicts;  // Has a value.
    net::Loop::Timer retry = 0;               // After a conflict.
    std::uint32_t reported_gpus = 0;          // Of a replica, because the configuration has another number.
    Pool* partner = nullptr;                  // With which it exchanges pods; null: none.
    std::unique_ptr<connect::Watched<connect::ReplicaSetState>> sets;  // Of a pool with a partner.
    std::uint64_t switches = 0;                                        // Pods that have come from the partner.
  };

  KubernetesFleet(net::Loop& loop, net::Client& client, logging::Log& log, KubernetesFleetOptions options,
                  std::unique_ptr<connect::KubernetesClient> api);
  void watch_targets(Pool& pool);
  template <class T>
  [[nodiscard]] std::unique_ptr<connect::Watched<T>> watch(Pool* pool, connect::ReflectorOptions options,
                                                           T (*parse)(const nlohmann::json&));
  [[nodiscard]] bool may_act() const { return !options_.api.may_write || options_.api.may_write(); }
  void advance();
  void advance(Pool& pool);
  // `has_read`: the scale was read right now.
  void act(Pool& pool, bool has_read);
  [[nodiscard]] static bool is_current(const Pool& pool, bool has_read);
  [[nodiscard]] bool is_busy(const Pool& pool) const;
  void read_scale(Pool& pool);
  void take_scale(Pool& pool, const connect::ApiScale& scale);
  void follow_pods(Pool& pool);
  void check_group(Pool& pool, const connect::PodGroup& group, FollowedReplica& replica);
  void watch_engines();
  // The object that has the number of replicas: the adapter of a component, or else the target.
  [[nodiscard]] static const connect::ScaledObject* object_of(const Pool& pool);
  [[nodiscard]] static const connect::ScaleTarget& scaled_target(const Pool& pool);
  [[nodiscard]] std::string missing_of(const Pool& pool) const;  // For a write; empty: all is known.
  [[nodiscard]] std::string unknown_of(const Pool& pool) const;  // Of the number of replicas and their states.
  [[nodiscard]] actuation::TargetSeen observe(Pool& pool) const;
  [[nodiscard]] actuation::PodSeen observe(const Pool& pool, const connect::PodGroup& group,
                                           const FollowedReplica& replica) const;
  [[nodiscard]] std::string url_of(const connect::PodState& pod) const;
  void run(Pool& pool, const actuation::PodStep& step, const actuation::TargetSeen& seen);
  void set_scale(Pool& pool, const actuation::PodStep& step, const actuation::TargetSeen& seen);
  void patch(Pool& pool, connect::ApiCall call, std::function<void()> done = {});
  void report_step(const Pool& pool, const std::string& pod, const actuation::PodStep& step, const std::string& text);

  // Pods that go from one pool to its partner and change their role.
  void find_partners();
  void advance_soon();
  [[nodiscard]] static connect::DeploymentPods deployment_of(const Pool& pool);
  // Those of which the partner's watch has reported a later version, with other labels.
  static void forget_moved_pods(Pool& pool);
  // The pod came from the partner, and the controller of the target does not count it yet, or has to delete another one.
  [[nodiscard]] static bool is_joining(const Pool& pool, const connect::PodState& pod);
  [[nodiscard]] static const char* stage_of(const Pool& pool, const connect::PodState& pod);
  void observe_exchange(const Pool& pool, actuation::TargetSeen& seen) const;
  void observe_role(const Pool& pool, const connect::PodState& pod, const FollowedReplica& replica,
                    actuation::PodSeen& seen) const;
  // The number of replicas to ask for now; none: nothing is to be done.
  [[nodiscard]] std::optional<std::uint32_t> exchange(Pool& pool, actuation::TargetSeen& seen);
  void set_role(Pool& pool, const actuation::PodStep& step, const connect::PodGroup& group, FollowedReplica& replica);
  void request_role(Pool& pool, const connect::PodState& pod, FollowedReplica& replica);
  void move(Pool& from, Pool& to, const actuation::PodStep& step, const connect::PodGroup& group);
  void move_orphans(Pool& pool);
  void take_failure(Pool& pool, const connect::ApiError& error, std::uint64_t& count);
  void take_conflict(Pool& pool);
  void take_hold(Pool& pool, actuation::PodHold hold);
  [[nodiscard]] std::optional<connect::ObjectReference> reference_of(const Pool& pool) const;
  void write_event(const Pool& pool, bool warning, const char* reason, const char* action, const std::string& note);
  void report(bool warning, const std::string& pool, const std::string& text);

  net::Loop& loop_;
  net::Client& client_;
  KubernetesFleetOptions options_;
  FleetEvents events_;
  EngineWatch watch_;
  connect::EventWriter* writer_ = nullptr;
  std::map<std::string, GatewayReplica> gateway_;  // By id, as last reported.
  std::optional<core::Instant> gateway_at_;
  std::vector<std::string> unknown_;  // Names of replicas to which the gateway routes and that no pool has.
  std::uint32_t next_number_ = 1;
  std::unique_ptr<connect::KubernetesClient> api_;
  std::unique_ptr<connect::Watched<connect::HorizontalAutoscaler>> autoscalers_;
  std::unique_ptr<connect::Watched<connect::DisruptionBudget>> budgets_;
  std::vector<std::unique_ptr<Pool>> pools_;
  net::Loop::Timer timer_ = 0, soon_ = 0;
};

}  // namespace penstock::controller
