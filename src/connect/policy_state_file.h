// The saved state of a policy, the GPU cost so far, and measured start-up times: {"version": …, "policy": …,
// "pools": […], "saved_unix_ms": …, "values": …, "gpu_costs": {…}, "start_up": […]}.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"
#include "core/time.h"
#include "decision/gpu_costs.h"
#include "decision/policy_state.h"

namespace penstock::connect {

// Start-up times of the newest replicas of a pool, oldest first.
struct PoolStartUp {
  std::string pool;
  core::Duration configured{};  // While they were measured.
  std::vector<core::Duration> times{};
};

struct SavedPolicyState {
  decision::PolicyState state;
  std::int64_t saved_unix_ms = 0;
  std::optional<decision::GpuCosts> costs{};  // Empty in a file of an earlier version.
  std::vector<PoolStartUp> start_up{};        // The same. Only pools with measured times.
};

[[nodiscard]] std::string policy_state_text(const SavedPolicyState& saved);
// Errors name `file` and the field.
[[nodiscard]] core::Result<SavedPolicyState> read_policy_state(std::string_view text, const std::string& file);

// Replaces the file atomically.
[[nodiscard]] core::Result<void> save_policy_state(const std::string& path, const SavedPolicyState& saved);
// Returns nothing if the file does not exist.
[[nodiscard]] core::Result<std::optional<SavedPolicyState>> load_policy_state(const std::string& path);

}  // namespace penstock::connect
