#include "planner/policies/policies.h"

#include "planner/bounds.h"
#include "planner/policies/llmd_replica_peaks.h"
#include "planner/poolwise_policy.h"

namespace penstock::planner {

namespace {

constexpr double kKvSpareTrigger = 0.10;
constexpr double kQueueSpareTrigger = 3.0;
constexpr std::uint32_t kUnsaturatedToShrink = 2;

struct Spare {
  std::uint32_t unsaturated = 0;
  double kv = 0.0;  // Mean over the unsaturated replicas.
  double queue = 0.0;

  [[nodiscard]] bool below_trigger() const { return kv < kKvSpareTrigger || queue < kQueueSpareTrigger; }
  // The spare capacity that would remain if one of them were removed and the others took its load.
  [[nodiscard]] Spare with_one_less() const {
    const double factor = static_cast<double>(unsaturated) / (unsaturated - 1.0);
    return {unsaturated - 1, kLlmdKvThreshold - (kLlmdKvThreshold - kv) * factor,
            kLlmdQueueThreshold - (kLlmdQueueThreshold - queue) * factor};
  }
};

[[nodiscard]] Spare spare_of(const std::vector<ReplicaPeak>& peaks) {
  Spare spare;
  for (const ReplicaPeak& peak : peaks) {
    if (peak.kv_usage >= kLlmdKvThreshold || peak.queued_requests >= kLlmdQueueThreshold) continue;
    ++spare.unsaturated;
    spare.kv += kLlmdKvThreshold - peak.kv_usage;
    spare.queue += kLlmdQueueThreshold - peak.queued_requests;
  }
  if (spare.unsaturated > 0) {
    spare.kv /= spare.unsaturated;
    spare.queue /= spare.unsaturated;
  }
  return spare;
}

class LlmdSaturationV1 final : public PoolwisePolicy<LlmdReplicaPeaks> {
 public:
  LlmdSaturationV1() : PoolwisePolicy("llmd-saturation-v1", kLlmdInterval) {}

 protected:
  PoolDecision decide_pool(core::Instant now, const signals::PoolObservation& pool, LlmdReplicaPeaks& state) override {
    const std::vector<ReplicaPeak> peaks = state.observe(now, pool);
    const Spare spare = spare_of(peaks);
    PoolDecision decision = judge(pool, peaks.size(), spare);
    decision.evidence = {{"spare_kv", spare.kv, "share"},
                         {"spare_queue", spare.queue, "requests"},
                         {"unsaturated", static_cast<double>(spare.unsaturated), "replicas"},
                         {"reporting", static_cast<double>(peaks.size()), "replicas"},
                         {"provisioned", static_cast<double>(provisioned(pool)), "replicas"}};
    return decision;
  }

 private:
  [[nodiscard]] static PoolDecision judge(const signals::PoolObservation& pool, std::size_t reporting,
                                          const Spare& spare) {
    if (reporting == 0) return hold(pool, Reason::kNoData);
    if (pool.target_replicas != provisioned(pool) || pool.starting > 0) return hold(pool, Reason::kScalingInProgress);
    if (reporting != pool.ready) return hold(pool, Reason::kInsufficientData);
    const double size = pool.target_replicas;
    if (spare.below_trigger()) return decide_bounded(pool, size + 1.0, Reason::kSaturated);
    if (spare.unsaturated < kUnsaturatedToShrink) return hold(pool, Reason::kWithinTolerance);
    if (spare.with_one_less().below_trigger()) return hold(pool, Reason::kConsolidationRefused);
    return decide_bounded(pool, size - 1.0, Reason::kSpareCapacity);
  }
};

}  // namespace

std::unique_ptr<Policy> make_llmd_saturation_v1(const PolicyContext&) { return std::make_unique<LlmdSaturationV1>(); }

}  // namespace penstock::planner
