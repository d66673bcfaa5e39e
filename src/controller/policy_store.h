// Where the state of a policy and the GPU cost so far are kept, so that the next planner continues where this one
// stopped.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "connect/kubernetes/client.h"
#include "connect/kubernetes/config_map_text.h"
#include "connect/policy_state_file.h"
#include "controller/gpu_cost_meter.h"
#include "core/result.h"
#include "core/time.h"
#include "decision/decision_loop.h"
#include "decision/gpu_costs.h"
#include "logging/log.h"

namespace penstock::controller {

class PolicyStore {
 public:
  // Nothing is saved so far, if it is empty.
  using Loaded = std::function<void(core::Result<std::optional<connect::SavedPolicyState>>)>;
  using Saved = std::function<void(core::Result<void>)>;

  virtual ~PolicyStore() = default;
  // Both may call back within the call, and do not after the store was destroyed.
  virtual void load(Loaded loaded) = 0;
  virtual void save(const connect::SavedPolicyState& state, Saved saved) = 0;
};

// Calls back within the call.
class PolicyStateFile final : public PolicyStore {
 public:
  explicit PolicyStateFile(std::string path) : path_(std::move(path)) {}
  void load(Loaded loaded) override { loaded(connect::load_policy_state(path_)); }
  void save(const connect::SavedPolicyState& state, Saved saved) override {
    saved(connect::save_policy_state(path_, state));
  }

 private:
  std::string path_;
};

// Of the fleet, not of a machine: any planner can read it.
class PolicyStateConfigMap final : public PolicyStore {
 public:
  PolicyStateConfigMap(std::unique_ptr<connect::KubernetesClient> api, const connect::ObjectName& name);
  void load(Loaded loaded) override;
  void save(const connect::SavedPolicyState& state, Saved saved) override;

 private:
  std::string where_;
  std::unique_ptr<connect::KubernetesClient> api_;
  connect::ConfigMapText text_;
};

// Moves the state of a control loop and the GPU costs to and from a store, and logs what goes wrong.
class PolicyKeeper {
 public:
  // Without a store nothing is kept. The log must outlive the keeper.
  PolicyKeeper(std::shared_ptr<PolicyStore> store, logging::Log& log, std::vector<std::string> pools)
      : store_(std::move(store)), log_(log), pools_(std::move(pools)) {}

  // `now` is read when the state is there. `done` may come within the call, and does not after a later restore(). Costs
  // are restored also where the policy cannot continue from its state.
  void restore(decision::DecisionLoop& loop, GpuCostMeter& costs, std::function<core::Instant()> now,
               std::function<void()> done);
  void save(decision::DecisionLoop& loop, const decision::GpuCosts& costs, std::function<void()> done = {});
  // The loop has ticked: this is the time of its state.
  void ticked() { ticked_unix_ms_ = unix_ms(); }
  void log_restored(const core::Result<void>& restored);
  [[nodiscard]] static std::int64_t unix_ms();

 private:
  std::shared_ptr<PolicyStore> store_;
  logging::Log& log_;
  std::vector<std::string> pools_;
  std::int64_t ticked_unix_ms_ = 0;
  std::uint64_t loads_ = 0;
  std::string save_error_;
  std::shared_ptr<int> alive_ = std::make_shared<int>();  // The store may live longer.
};

}  // namespace penstock::controller
