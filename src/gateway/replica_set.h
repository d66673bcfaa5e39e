// The replicas a gateway knows, in groups that can stand in for each other, and the choice among them.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/time.h"
#include "gateway/breaker.h"
#include "gateway/options.h"
#include "gateway/target.h"
#include "routing/endpoint_picker.h"

namespace penstock::gateway {

// A group is the replicas of one model with one role. Slots number the replicas of all groups; one is used again once its
// replica is gone and its requests have ended. Not thread-safe.
class ReplicaSet {
 public:
  explicit ReplicaSet(const GatewayOptions& options);

  struct Replica {
    ReplicaSpec spec;
    std::shared_ptr<const Target> target;
    std::uint32_t group = 0;
    bool present = false;  // named by discovery
    bool healthy = true;
    Breaker breaker;
    std::uint32_t open_requests = 0;
    bool tells_cached = false;  // its usage has said how much was cached
    std::uint64_t requests_total = 0, failures_total = 0, busy_total = 0;
  };

  // As Dispatcher::set_replicas says.
  void set(const std::vector<ReplicaSpec>& specs, core::Instant now);
  void set_health(std::uint32_t slot, bool healthy, core::Instant now);
  // Breakers whose time is over let a request try.
  void tick(core::Instant now);

  [[nodiscard]] std::optional<std::uint32_t> slot_of(std::string_view id) const;
  [[nodiscard]] std::optional<std::uint32_t> group_of(std::string_view model, signals::Role role) const;
  [[nodiscard]] bool serves(std::string_view model) const;  // some replica does, ready or not
  [[nodiscard]] bool knows(
      std::string_view model) const;  // it is configured, or some replica served it since the start
  [[nodiscard]] routing::EndpointPicker& picker(std::uint32_t group) { return groups_[group].picker; }
  [[nodiscard]] const Replica& replica(std::uint32_t slot) const { return replicas_[slot]; }
  [[nodiscard]] std::uint32_t slots() const { return static_cast<std::uint32_t>(replicas_.size()); }
  [[nodiscard]] std::vector<std::string> models() const;  // all that it knows
  [[nodiscard]] routing::EndpointPicker::Load load(std::uint32_t slot, core::Instant now) const;

  // The life of a request on a slot.
  void dispatched(std::uint32_t slot, const routing::PickRequest& ask, const routing::Selection& selection,
                  core::Instant now);
  void succeeded(std::uint32_t slot, core::Instant now);
  void faulted(std::uint32_t slot, core::Instant now);
  void busy(std::uint32_t slot, core::Instant now);
  void undecided(std::uint32_t slot, core::Instant now);
  void left(std::uint32_t slot);  // the request is there no more
  void tells_cached(std::uint32_t slot) { replicas_[slot].tells_cached = true; }

 private:
  struct Group {
    std::string model;
    signals::Role role;
    routing::EndpointPicker picker;
  };

  void describe(std::uint32_t slot, const ReplicaSpec& spec, core::Instant now);  // what of it may change
  std::uint32_t take_slot();
  std::uint32_t take_group(const std::string& model, signals::Role role);
  void update(std::uint32_t slot, core::Instant now);  // whether it may be chosen
  void forget_if_done(std::uint32_t slot);

  const GatewayOptions& options_;
  std::vector<Replica> replicas_;  // by slot
  std::vector<bool> used_;
  std::vector<Group> groups_;
  std::map<std::string, std::uint32_t, std::less<>> by_id_;
};

}  // namespace penstock::gateway
