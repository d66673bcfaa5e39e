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
#include "connect/kubernetes/client.h"
#include "connect/kubernetes/pod_groups.h"
#include "connect/kubernetes/pods.h"
#include "connect/kubernetes/scale_target.h"
#include "connect/kubernetes/watched.h"
#include "controller/engine_watch.h"
#include "controller/fleet.h"
#include "controller/role_requests.h"
#include "controller/scaled_pool.h"
#include "controller/scaling_reports.h"
#include "core/result.h"
#include "net/client.h"
#include "net/loop.h"

namespace penstock::controller {

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

// The pods that the selector of a target's scale selects are its replicas, and the gateway knows them by their names. A
// group of a LeaderWorkerSet is one replica with the name and the address of its leader.
// Targets, pods, autoscalers and disruption budgets are watched. What to do is computed by actuation/pod_scaling.h from
// what the API server has confirmed lately; without that nothing is done. All that must survive a restart is in the
// API server: the number of replicas, the marks on pods, and the roles that their engines were asked to take; start-up
// times are kept with the policy's state. Lives on one loop; advances a few times a second.
class KubernetesFleet final : public Fleet {
 public:
  [[nodiscard]] static core::Result<std::unique_ptr<KubernetesFleet>> start(net::Loop& loop, net::Client& client,
                                                                            logging::Log& log,
                                                                            KubernetesFleetOptions options);
  ~KubernetesFleet() override;
  KubernetesFleet(const KubernetesFleet&) = delete;
  KubernetesFleet& operator=(const KubernetesFleet&) = delete;

  // What is done to a target, and why nothing is done, becomes an event on it. The writer outlives the fleet.
  void write_events(connect::EventWriter& writer) { reports_.write_events(writer); }

  [[nodiscard]] bool acts() const override { return true; }
  void forget_targets() override;
  [[nodiscard]] std::optional<connect::ObjectReference> target_object(std::size_t pool) const override {
    return reference_of(*pools_[pool], options_.in_namespace);
  }
  [[nodiscard]] std::string unknown_because() const override;
  void set_target(std::size_t pool, std::uint32_t replicas) override { pools_[pool]->wanted = replicas; }
  [[nodiscard]] std::uint64_t role_switches(std::size_t pool) const override { return pools_[pool]->switches; }
  void update_gateway(const GatewayState& state, core::Instant at) override;
  void recent_prompts(std::vector<std::uint32_t>) override {}
  void hot_prefixes(std::vector<GatewayPrefix>) override {}
  void fill(std::size_t pool, signals::PoolObservation& seen) const override;
  [[nodiscard]] std::vector<ReplicaView> replicas(std::size_t pool) const override;
  [[nodiscard]] std::optional<telemetry::TokenFigures> tokens_of(
      std::uint32_t replica, std::optional<double> kv_bytes_per_token) const override {
    return watch_.tokens_of(replica, kv_bytes_per_token);
  }
  [[nodiscard]] const std::vector<FleetEvent>& events() const override { return events_.all(); }
  [[nodiscard]] std::optional<report::PodScaling> scaling(std::size_t pool) const override;
  [[nodiscard]] std::vector<connect::VariantAnnotations> annotations(std::size_t pool) const override;
  [[nodiscard]] StartUpTimes* start_up_times(std::size_t pool) override { return &pools_[pool]->start_up; }

 private:
  using Pool = ScaledPool;

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
  [[nodiscard]] std::string missing_of(const Pool& pool) const;  // For a write; empty: all is known.
  [[nodiscard]] actuation::TargetSeen observe(Pool& pool) const;
  [[nodiscard]] actuation::PodSeen observe(const Pool& pool, const connect::PodGroup& group,
                                           const FollowedReplica& replica) const;
  void run(Pool& pool, const actuation::PodStep& step, const actuation::TargetSeen& seen);
  void set_scale(Pool& pool, const actuation::PodStep& step, const actuation::TargetSeen& seen);
  void patch(Pool& pool, connect::ApiCall call, std::function<void()> done = {});

  // Of pools that exchange pods.
  void advance_soon();
  [[nodiscard]] std::optional<std::uint32_t> exchange(Pool& pool, actuation::TargetSeen& seen);
  void set_role(Pool& pool, const actuation::PodStep& step, const connect::PodGroup& group);
  void move(Pool& pool, const actuation::PodStep& step, const connect::PodIdentity& pod,
            const actuation::TargetSeen& seen);
  void take_failure(Pool& pool, const connect::ApiError& error);
  void take_conflict(Pool& pool);

  net::Loop& loop_;
  KubernetesFleetOptions options_;
  FleetEvents events_;
  ScalingReports reports_;
  EngineWatch watch_;
  RoleRequests roles_;
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
