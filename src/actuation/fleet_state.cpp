#include "actuation/fleet_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "core/enum_names.h"
#include "core/result.h"

namespace penstock::actuation {

namespace {

constexpr std::array kStages{Stage::kRequested, Stage::kStarting, Stage::kWarming,  Stage::kWaking,
                             Stage::kSwitching, Stage::kServing,  Stage::kDraining, Stage::kAsleep,
                             Stage::kStopping,  Stage::kStopped,  Stage::kFailed};

}  // namespace

const char* to_string(Stage stage) {
  return core::name_of<Stage::kFailed>(stage, {"requested", "starting", "warming", "waking", "switching", "serving",
                                               "draining", "asleep", "stopping", "stopped", "failed"});
}

std::optional<Stage> stage_named(std::string_view name) {
  const auto* const stage = std::find_if(kStages.begin(), kStages.end(), [&](Stage s) { return name == to_string(s); });
  if (stage == kStages.end()) return std::nullopt;
  return *stage;
}

bool has_ended(Stage stage) { return stage == Stage::kStopped || stage == Stage::kFailed; }

signals::ReplicaState observed(const Replica& replica) {
  switch (replica.stage) {
    case Stage::kRequested:
    case Stage::kStarting:
    case Stage::kWarming:
    case Stage::kWaking:
    case Stage::kSwitching: return replica.to_sleep ? signals::ReplicaState::kAsleep : signals::ReplicaState::kStarting;
    case Stage::kAsleep: return signals::ReplicaState::kAsleep;
    case Stage::kServing: return signals::ReplicaState::kReady;
    case Stage::kDraining:
    case Stage::kStopping: return signals::ReplicaState::kDraining;
    case Stage::kStopped: return signals::ReplicaState::kStopped;
    case Stage::kFailed: return signals::ReplicaState::kCrashed;
  }
  return signals::ReplicaState::kCrashed;
}

const Replica* FleetState::find(std::uint32_t id) const {
  const auto replica = std::find_if(replicas.begin(), replicas.end(), [&](const Replica& r) { return r.id == id; });
  return replica == replicas.end() ? nullptr : &*replica;
}

Replica* FleetState::find(std::uint32_t id) {
  return const_cast<Replica*>(static_cast<const FleetState&>(*this).find(id));
}

std::uint32_t FleetState::switching_to(std::string_view pool) const {
  return static_cast<std::uint32_t>(
      std::count_if(replicas.begin(), replicas.end(), [&](const Replica& r) { return r.switch_to == pool; }));
}

std::string name_of(const Replica& replica) { return fmt::format("{}-{}", replica.pool, replica.id); }

std::optional<std::uint16_t> reserve_port(FleetState& fleet, std::uint32_t replica, PortRange range,
                                          const std::function<bool(std::uint16_t)>& is_free) {
  Replica* const owner = fleet.find(replica);
  PENSTOCK_ASSERT(owner != nullptr && !has_ended(owner->stage), "only a living replica has ports");
  const auto taken = [&](std::uint16_t port) {
    return std::any_of(fleet.replicas.begin(), fleet.replicas.end(), [&](const Replica& r) {
      return !has_ended(r.stage) && std::find(r.ports.begin(), r.ports.end(), port) != r.ports.end();
    });
  };
  std::uint16_t port = std::clamp(fleet.next_port, range.first, std::max(range.first, range.last));
  for (int left = int{range.last} - int{range.first} + 1; left > 0; --left) {
    const std::uint16_t candidate = port;
    port = port == range.last ? range.first : static_cast<std::uint16_t>(port + 1);
    if (taken(candidate) || !is_free(candidate)) continue;
    fleet.next_port = port;
    owner->ports.push_back(candidate);
    return candidate;
  }
  return std::nullopt;
}

}  // namespace penstock::actuation
