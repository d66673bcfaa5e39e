// The replicas that a dispatcher knows, in groups that can stand in for each other, and the choice among them.
#pragma once

#include <array>
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
#include "dispatch/circuit_breaker.h"
#include "dispatch/options.h"
#include "dispatch/replica_spec.h"
#include "routing/picking_strategy.h"

namespace penstock::dispatch {

enum class KvChange : std::uint8_t { kStored, kRemoved, kCleared, kLost };  // kLost: some events are missing

// A breaker opened, closed, or lets a request try.
struct BreakerChange {
  std::string replica;
  CircuitBreaker::State state = CircuitBreaker::State::kClosed;
  std::uint32_t failures = 0;  // in a row
};

// A group is the replicas of one model with one role; a picking strategy chooses within it. Slots number the replicas of
// all groups; a slot is used again once its replica is gone and its requests have ended. Not thread-safe.
class ReplicaSet {
 public:
  explicit ReplicaSet(const DispatchOptions& options);

  struct Replica {
    ReplicaSpec spec;
    std::uint32_t group = 0;
    std::uint32_t place = 0;  // the strategy's number for it within the group
    bool used = false;        // the slot has a replica
    bool present = false;     // the replica is named by discovery
    bool healthy = true;
    bool eligible = false;
    CircuitBreaker breaker{{}};
    CircuitBreaker::State breaker_state = CircuitBreaker::State::kClosed;  // as last reported
    std::uint32_t open_requests = 0;
    bool tells_cached = false;  // its usage has reported how much was cached
    std::uint64_t requests_total = 0, failures_total = 0, busy_total = 0;
  };

  // As Dispatcher::set_replicas.
  void set(const std::vector<ReplicaSpec>& specs, core::Instant now);
  void set_health(std::uint32_t slot, bool healthy, core::Instant now);
  // A breaker that was open for long enough lets a request try.
  void tick(core::Instant now);
  [[nodiscard]] core::Instant next_wake() const;  // when tick() has something to do; kNever: no breaker is open

  // Since the last call, in order; the first kChangesMax of them.
  [[nodiscard]] std::vector<BreakerChange> take_breaker_changes() { return std::exchange(changes_, {}); }

  [[nodiscard]] std::optional<std::uint32_t> slot_of(std::string_view id) const;
  [[nodiscard]] const Replica& replica(std::uint32_t slot) const { return replicas_[slot]; }
  [[nodiscard]] std::uint32_t slots() const { return static_cast<std::uint32_t>(replicas_.size()); }

  // Models are numbered: those that are configured first, then each that a replica serves.
  [[nodiscard]] std::optional<std::uint32_t> model_number(std::string_view model) const;  // none: nobody ever served it
  [[nodiscard]] const Model& model(std::uint32_t number) const { return models_[number].settings; }
  [[nodiscard]] std::vector<std::string> models() const;  // sorted
  [[nodiscard]] bool serves(std::uint32_t model) const;   // some replica does, ready or not
  [[nodiscard]] std::optional<std::uint32_t> group_of(std::uint32_t model, signals::Role role) const;
  [[nodiscard]] bool any_eligible(std::uint32_t group) const { return groups_[group].eligible > 0; }

  // The life of a request on a slot. The slots of selections and `without` are those of this class.
  [[nodiscard]] std::optional<routing::Selection> choose(std::uint32_t group, const routing::PickRequest& request,
                                                         core::Instant now);
  void dispatched(const routing::PickRequest& request, const routing::Selection& selection, core::Instant now);
  void first_token(std::uint32_t slot, std::uint32_t uncached_tokens, core::Duration ttft, core::Instant now);
  void assume_first_token(std::uint32_t slot, std::uint32_t uncached_tokens, core::Instant sent_at, core::Instant now);
  void succeeded(std::uint32_t slot, core::Instant now);
  void faulted(std::uint32_t slot, core::Instant now);
  void busy(std::uint32_t slot, core::Instant now);
  void undecided(std::uint32_t slot, core::Instant now);
  // The request has left the slot; the arguments as PickingStrategy::finished has them.
  void finished(std::uint32_t slot, std::uint32_t uncached_tokens, std::uint32_t input_tokens,
                std::uint32_t output_tokens, bool answered);

  // What engines report.
  [[nodiscard]] routing::PickingStrategy::Load load(std::uint32_t slot, core::Instant now) const;
  void report_load(std::uint32_t slot, const routing::ReportedLoad& load);
  void kv_event(std::uint32_t slot, KvChange change, std::span<const std::uint64_t> keys);
  void tells_cached(std::uint32_t slot) { replicas_[slot].tells_cached = true; }
  void prefix_missing(std::uint32_t slot, core::Instant used_at);
  [[nodiscard]] std::vector<routing::PickingStrategy::Holder> holders(std::uint32_t group,
                                                                      std::span<const std::uint64_t> keys,
                                                                      core::Instant now);
  void pinged(std::uint32_t slot, std::span<const std::uint64_t> keys, core::Instant now);

 private:
  static constexpr std::uint32_t kNone = UINT32_MAX;
  static constexpr std::size_t kChangesMax = 1024;
  struct Group {
    std::unique_ptr<routing::PickingStrategy> strategy;
    std::vector<std::uint32_t> slots;        // by place
    std::vector<std::uint32_t> free_places;  // the last one is used first
    std::uint32_t eligible = 0;
  };
  struct KnownModel {
    Model settings;                                            // the defaults where it is not configured
    std::array<std::uint32_t, 3> groups{kNone, kNone, kNone};  // by role
  };

  [[nodiscard]] routing::PickingStrategy& strategy(std::uint32_t slot) {
    return *groups_[replicas_[slot].group].strategy;
  }
  [[nodiscard]] std::uint32_t place(std::uint32_t slot) const { return replicas_[slot].place; }
  std::uint32_t add_model(const Model& settings);
  std::uint32_t add(const ReplicaSpec& spec, core::Instant now);
  void describe(std::uint32_t slot, const ReplicaSpec& spec, core::Instant now);  // what of it may change
  std::uint32_t take_slot();
  std::uint32_t take_group(const ReplicaSpec& spec);
  void update(std::uint32_t slot, core::Instant now);  // whether it may be chosen
  void forget_if_done(std::uint32_t slot);

  const DispatchOptions& options_;
  std::vector<Replica> replicas_;  // by slot
  std::vector<Group> groups_;
  std::vector<KnownModel> models_;
  std::map<std::string, std::uint32_t, std::less<>> model_numbers_;
  std::map<std::string, std::uint32_t, std::less<>> by_id_;
  std::vector<std::uint32_t> other_places_;  // of one choice
  std::vector<BreakerChange> changes_;
};

}  // namespace penstock::dispatch
