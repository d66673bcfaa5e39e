// The algorithm of Kubernetes' HorizontalPodAutoscaler (autoscaling/v2), which several policies use: a metric becomes a
// proposal (pkg/controller/podautoscaler/replica_calculator.go), and the proposal becomes a target (horizontal.go,
// behaviour rules).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/state_archive.h"
#include "planner/bounds.h"
#include "planner/policy.h"

namespace penstock::planner {

inline constexpr core::Duration kHpaSyncPeriod = std::chrono::seconds{15};
inline constexpr double kHpaTolerance = 0.1;
// Share of a replica's load-tested capacity that is used as the target, so that there is room until the next one is
// ready.
inline constexpr double kHpaTargetUtilization = 0.8;

// The proposal of a metric, before windows, rates and bounds.
struct HpaProposal {
  double replicas = 0.0;            // A whole number, stored as a double because it is not bounded yet.
  Reason reason = Reason::kNoData;  // kNoData, kWithinTolerance, kLoadAboveTarget or kLoadBelowTarget.
};

// A metric of type Pods. Draining pods are in neither count.
struct PodMetric {
  double sum = 0.0;
  std::uint32_t known = 0;
  // Ready or starting pods without a value. They count as at the target for scale-down and as idle for scale-up.
  std::uint32_t missing = 0;
};
[[nodiscard]] HpaProposal propose_from_pods(const PodMetric& metric, double target, std::uint32_t current);

// A metric of type External or Object with an AverageValue target, divided by the number of replicas.
[[nodiscard]] HpaProposal propose_from_total(double total, double target, std::uint32_t replicas);

// Returns the highest of several proposals. A metric without data prevents scale-down, but not scale-up.
[[nodiscard]] HpaProposal greatest(std::span<const HpaProposal> proposals, std::uint32_t current);

// One of spec.behavior's policies. The policy of a direction that allows the largest change applies (selectPolicy:
// Max).
struct HpaPolicy {
  enum class Kind : std::uint8_t { kPods, kPercent };
  Kind kind;
  std::uint32_t value;
  core::Duration period;
};
struct HpaRules {
  core::Duration stabilization;     // Scale-up uses the lowest proposal of the window, scale-down the highest.
  std::vector<HpaPolicy> policies;  // At least one.
};
struct HpaBehavior {
  HpaRules up, down;
};
// Up: no window, the greater of 100 % and 4 pods in 15 s. Down: a window of 300 s, 100 % in 15 s.
[[nodiscard]] HpaBehavior hpa_default_behavior();

// Turns the proposals for one pool into targets.
class HpaController {
 public:
  explicit HpaController(HpaBehavior behavior = hpa_default_behavior());

  // `current` is the last requested target. A proposal without data keeps it. The caller adds the evidence.
  [[nodiscard]] PoolDecision decide(core::Instant now, std::uint32_t current, const Bounds& bounds,
                                    const HpaProposal& proposal);

  void archive(core::StateArchive& state) { state("hpa", started_, recommendations_, changes_, ordered_); }

 private:
  struct Recommendation {
    core::Instant at;
    double replicas = 0.0;
    void archive(core::StateArchive& state) { state.values_of(at, replicas); }
  };
  struct Change {
    core::Instant at;
    double replicas = 0.0;  // Negative for removed replicas.
    void archive(core::StateArchive& state) { state.values_of(at, replicas); }
  };
  // Of the last decision. As in the original, it is a change only if the target has become this one: it may have been
  // refused or limited, or is only observed.
  struct Order {
    std::uint32_t target = 0;
    Change change;
    void archive(core::StateArchive& state) { state.values_of(target, change); }
  };
  [[nodiscard]] double stabilize(core::Instant now, double current, double proposed);
  [[nodiscard]] double limit_of(const HpaRules& rules, core::Instant now, double current, bool up) const;

  HpaBehavior behavior_;
  bool started_ = false;
  std::vector<Recommendation> recommendations_;
  std::vector<Change> changes_;
  std::optional<Order> ordered_;
};

}  // namespace penstock::planner
