// The replicas that a planner observes, and scales where it may: processes of this machine, or replicas that others
// run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "connect/kubernetes/event_writer.h"
#include "connect/kubernetes/variant_annotations.h"
#include "controller/fleet_events.h"
#include "controller/gateway_feed.h"
#include "controller/start_up_times.h"
#include "core/time.h"
#include "report/metrics.h"
#include "signals/observation.h"
#include "telemetry/message_metrics.h"
#include "telemetry/token_metrics.h"

namespace penstock::controller {

// One replica, for dashboards.
struct ReplicaView {
  std::string name, stage, url;  // stage: "starting", "serving", …
  core::Instant since;
  signals::ReplicaObservation seen;
  std::optional<telemetry::MessageCounts> fpm{};  // Of its forward pass metrics; none: it has no endpoint of them.
  std::string model{};                            // As the gateway names it; empty if that is unknown.
  std::optional<telemetry::MessageCounts> kv_events{};  // Of the KV caches of Dynamo's workers; none: as above.
  std::string switch_to{};  // The pool that it drains for, in order to take the role of its replicas; usually empty.
};

// On one loop. Pools are numbered as in the planner's configuration.
class Fleet {
 public:
  virtual ~Fleet() = default;
  // Whether set_target() changes anything.
  [[nodiscard]] virtual bool acts() const = 0;
  virtual void set_target(std::size_t pool, std::uint32_t replicas) = 0;
  // Replicas to keep asleep beside the target. Only processes of this machine sleep: the scale of an object of
  // Kubernetes has no such state.
  virtual void set_asleep(std::size_t, std::uint32_t) {}
  // `at`: when the state was requested, before the gateway described it.
  virtual void update_gateway(const GatewayState& state, core::Instant at) = 0;
  // For warm-up: the lengths of users' prompts, and the prefixes that many of them share.
  virtual void recent_prompts(std::vector<std::uint32_t> input_tokens) = 0;
  virtual void hot_prefixes(std::vector<GatewayPrefix> prefixes) = 0;
  // Replicas that left their pool since the start and serve in this one with its role. Only processes of this machine
  // and pods of Deployments change their role.
  [[nodiscard]] virtual std::uint64_t role_switches(std::size_t) const { return 0; }
  // Adds replica counts, states and samples, the target, and the count of failed actions.
  virtual void fill(std::size_t pool, signals::PoolObservation& seen) const = 0;
  [[nodiscard]] virtual std::vector<ReplicaView> replicas(std::size_t pool) const = 0;
  // The token figures of one replica; none: its metrics cannot be read.
  [[nodiscard]] virtual std::optional<telemetry::TokenFigures> tokens_of(
      std::uint32_t replica, std::optional<double> kv_bytes_per_token) const = 0;
  [[nodiscard]] virtual const std::vector<FleetEvent>& events() const = 0;
  // What is unknown of the replicas, as a clause; empty: nothing. Nothing is decided without it.
  [[nodiscard]] virtual std::string unknown_because() const { return {}; }
  // None: the fleet's own state machine brings a pool to its target.
  [[nodiscard]] virtual std::optional<report::PodScaling> scaling(std::size_t) const { return std::nullopt; }
  // The start-up times of the replicas of a pool; null: they are not measured.
  [[nodiscard]] virtual StartUpTimes* start_up_times(std::size_t) { return nullptr; }
  // Another planner leads: the targets that were set are over.
  virtual void forget_targets() {}
  // The object of Kubernetes that has the replicas of a pool; none: there is none, or it is not known yet.
  [[nodiscard]] virtual std::optional<connect::ObjectReference> target_object(std::size_t) const {
    return std::nullopt;
  }
  // What annotations of llm-d say of a pool: those of its autoscaler first, then those of its target.
  [[nodiscard]] virtual std::vector<connect::VariantAnnotations> annotations(std::size_t) const { return {}; }
  // Replicas that the gateway lists and that belong to no pool.
  [[nodiscard]] virtual std::size_t left_out() const { return 0; }
};

// Adds the replicas of these views and their counts by state, in the order of their numbers.
void add_replicas(const std::vector<ReplicaView>& views, signals::PoolObservation& seen);

}  // namespace penstock::controller
