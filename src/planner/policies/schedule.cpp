#include <algorithm>
#include <utility>

#include "core/state_archive.h"
#include "planner/bounds.h"
#include "planner/policies/policies.h"

namespace penstock::planner {

namespace {

constexpr core::Duration kScheduleInterval = std::chrono::seconds{1};

class Schedule final : public Policy {
 public:
  explicit Schedule(std::vector<PoolSteps> pools) : pools_(std::move(pools)) {}

  [[nodiscard]] std::string_view name() const override { return "schedule"; }
  [[nodiscard]] core::Duration interval() const override { return kScheduleInterval; }
  [[nodiscard]] Decision decide(const signals::Observation& observation) override {
    PENSTOCK_ASSERT(observation.pools.size() == pools_.size(), "a schedule has the steps of every pool");
    Decision decision;
    for (std::size_t i = 0; i < pools_.size(); ++i)
      decision.pools.push_back(decide_with_zero(
          observation.pools[i], replicas_at(pools_[i], observation.now - core::kStart), Reason::kFixed));
    return decision;
  }

 private:
  static double replicas_at(const PoolSteps& steps, core::Duration elapsed) {
    const auto next = std::upper_bound(steps.begin(), steps.end(), elapsed,
                                       [](core::Duration at, const ScheduleStep& step) { return at < step.from; });
    PENSTOCK_ASSERT(next != steps.begin(), "a schedule begins at 0");
    return std::prev(next)->replicas;
  }

  std::vector<PoolSteps> pools_;
};

}  // namespace

std::unique_ptr<Policy> make_schedule(std::vector<PoolSteps> pools) {
  return std::make_unique<Schedule>(std::move(pools));
}

}  // namespace penstock::planner
