// The saved state of a policy and the GPU cost so far: {"version": …, "policy": …, "pools": […], "saved_unix_ms": …,
// "values": …, "gpu_costs": {…}}.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/result.h"
#include "core/time.h"
#include "decision/gpu_costs.h"
#include "decision/policy_state.h"

namespace penstock::connect {

struct SavedPolicyState {
  decision::PolicyState state;
  std::int64_t saved_unix_ms = 0;
  std::optional<decision::GpuCosts> costs{};  // Empty in a file of an earlier version.
};

[[nodiscard]] std::string policy_state_text(const SavedPolicyState& saved);
// Errors name `file` and the field.
[[nodiscard]] core::Result<SavedPolicyState> read_policy_state(std::string_view text, const std::string& file);

// Replaces the file atomically.
[[nodiscard]] core::Result<void> save_policy_state(const std::string& path, const SavedPolicyState& saved);
// Returns nothing if the file does not exist.
[[nodiscard]] core::Result<std::optional<SavedPolicyState>> load_policy_state(const std::string& path);

}  // namespace penstock::connect
