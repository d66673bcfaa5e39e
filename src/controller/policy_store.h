// Where the state of a policy, the GPU cost so far and measured start-up times are kept, so that the next planner
// continues where this one stopped.
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

// What a store has. Nothing is saved so far if both are empty.
struct StoredState {
  std::optional<connect::SavedPolicyState> state{};
  std::string unusable_because{};  // What is saved is no state: the cause, and where it is kept, if it is.
};

class PolicyStore {
 public:
  // An error: the store could not be read. What it has is unknown, and must not be replaced.
  using Loaded = std::function<void(core::Result<StoredState>)>;
  using Saved = std::function<void(core::Result<void>)>;

  virtual ~PolicyStore() = default;
  // Both may call back within the call, and do not after the store was destroyed.
  virtual void load(Loaded loaded) = 0;
  virtual void save(const connect::SavedPolicyState& state, Saved saved) = 0;
};

// Calls back within the call. A file that is no state is kept as `path`.unusable, in place of an earlier one.
class PolicyStateFile final : public PolicyStore {
 public:
  explicit PolicyStateFile(std::string path) : path_(std::move(path)) {}
  void load(Loaded loaded) override;
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
//
// While the store cannot be read, the loop decides without a state and nothing is saved, because a write would replace
// what is there: the costs of months, perhaps. A later read restores the state as if the loop had not ticked yet, and
// adds the costs counted meanwhile to those that were saved.
class PolicyKeeper {
 public:
  // Without a store nothing is kept. The log must outlive the keeper.
  PolicyKeeper(std::shared_ptr<PolicyStore> store, logging::Log& log, std::vector<std::string> pools)
      : store_(std::move(store)), log_(log), pools_(std::move(pools)) {}

  // `now` is read when the state is there. `done` may come within the call, and does not after a later restore(). It
  // comes after a failed read, too. Costs are restored also where the policy cannot continue from its state.
  void restore(decision::DecisionLoop& loop, GpuCostMeter& costs, std::function<core::Instant()> now,
               std::function<void()> done);
  // Start-up times are saved and restored with each state. Both functions live as long as the keeper.
  void keep_start_up(std::function<std::vector<connect::PoolStartUp>()> measured,
                     std::function<void(const std::vector<connect::PoolStartUp>&)> restore) {
    measured_start_up_ = std::move(measured);
    restore_start_up_ = std::move(restore);
  }
  // Whether the store could be read since the last restore(); true without a store.
  [[nodiscard]] bool has_read() const { return !store_ || has_read_; }
  // Reads once more what restore() could not read, unless a read is in progress.
  void restore_again(decision::DecisionLoop& loop, GpuCostMeter& costs, std::function<core::Instant()> now);
  // Before the first decision, the costs are saved with the state that was read, if there is one. Nothing is saved
  // before the store could be read.
  void save(decision::DecisionLoop& loop, const decision::GpuCosts& costs, std::function<void()> done = {});
  // The loop has ticked: this is the time of its state.
  void ticked() { ticked_unix_ms_ = unix_ms(); }
  void log_restored(const core::Result<void>& restored);
  [[nodiscard]] static std::int64_t unix_ms();

 private:
  void read(decision::DecisionLoop& loop, GpuCostMeter& costs, std::function<core::Instant()> now,
            std::function<void()> done);
  void take(decision::DecisionLoop& loop, GpuCostMeter& costs, core::Instant now, StoredState stored);
  void take_failure(GpuCostMeter& costs, const core::Error& error);
  void follow_error(std::string error);  // Empty: what is to be saved was saved.

  std::shared_ptr<PolicyStore> store_;
  logging::Log& log_;
  std::vector<std::string> pools_;
  std::int64_t ticked_unix_ms_ = 0;
  std::uint64_t loads_ = 0;
  // Since the last restore().
  bool has_read_ = false, has_failed_ = false, is_reading_ = false;
  decision::GpuCosts counted_before_;                  // If a read has failed.
  std::optional<connect::SavedPolicyState> restored_;  // As it was read, without costs; until the first decision.
  std::string save_error_;
  std::function<std::vector<connect::PoolStartUp>()> measured_start_up_;
  std::function<void(const std::vector<connect::PoolStartUp>&)> restore_start_up_;
  std::shared_ptr<int> alive_ = std::make_shared<int>();  // The store may live longer.
};

}  // namespace penstock::controller
