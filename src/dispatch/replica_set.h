// The replicas of a dispatcher, in groups of interchangeable ones, and the choice among them.
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
#include "dispatch/pool_rules.h"
#include "dispatch/replica_state.h"
#include "routing/picking_strategy.h"

namespace penstock::dispatch {

enum class KvChange : std::uint8_t { kStored, kRemoved, kCleared, kLost };  // kLost: some events are missing.

// A replica was ejected, returned, or one request may try it.
struct BreakerChange {
  std::string replica;
  CircuitBreaker::State state = CircuitBreaker::State::kClosed;
  std::uint32_t failures = 0;  // Consecutive failures.
  EjectionCause cause = EjectionCause::kNone;
  core::Duration time{};  // Length of the ejection.
};

// A replica that presumably holds a prefix and computes no prompt now.
struct PrefixHolder {
  std::string replica;
  std::uint32_t slot = 0;
  core::Instant sent_at;  // Last time the prefix was sent to this replica.
};

struct ModelListing {
  std::string name;
  std::uint32_t context_tokens = 0;  // Of prompt and answer together.
  TokenCaps caps{};
};

// A group contains the replicas of one model with one role, and of one pool where the options have rules for pools; a
// picking strategy chooses within it. Slots number the replicas of all groups; a slot is reused once its
// replica is gone and its requests and transfers have ended. Not thread-safe.
class ReplicaSet {
 public:
  explicit ReplicaSet(const DispatchOptions& options);

  using Replica = ReplicaState;

  // The options have new models, or new limits of circuit breakers or KV usage. A model that is not configured any more
  // loses its price.
  void options_changed();

  // See Dispatcher::set_replicas.
  void set(const std::vector<ReplicaSpec>& specs, core::Instant now);
  void set_health(std::uint32_t slot, ReplicaHealth health, core::Instant now);
  void answered(std::uint32_t slot, core::Instant now) { replicas_[slot].answered_at = now; }
  // Lets a request try an ejected replica once its time is over.
  void tick(core::Instant now);
  [[nodiscard]] core::Instant next_wake() const;  // Time of the next change by tick(); kNever if no breaker is open.

  // Changes since the last call, in order; at most the first kChangesMax.
  [[nodiscard]] std::vector<BreakerChange> take_breaker_changes() { return std::exchange(changes_, {}); }

  [[nodiscard]] std::optional<std::uint32_t> slot_of(std::string_view id) const;
  [[nodiscard]] const Replica& replica(std::uint32_t slot) const { return replicas_[slot]; }
  [[nodiscard]] std::uint32_t slots() const { return static_cast<std::uint32_t>(replicas_.size()); }

  // Models are numbered: first the configured ones, then each that a replica serves. A configured model and the model
  // of a replica stay known; an alias or adapter is known until its replicas no longer list it.
  [[nodiscard]] std::optional<std::uint32_t> model_number(std::string_view model) const;
  [[nodiscard]] const Model& model(std::uint32_t number) const { return models_[number].settings; }
  // The smallest limit of the options and of the replicas that serve it; of several pools, that of the pool with the
  // largest one.
  [[nodiscard]] std::uint32_t context_tokens(std::uint32_t model) const;
  [[nodiscard]] std::optional<std::uint32_t> context_tokens_of(std::optional<std::uint32_t> model) const {
    return model ? std::optional{context_tokens(*model)} : std::nullopt;
  }
  [[nodiscard]] std::uint64_t key_salt(std::uint32_t model) const { return models_[model].key_salt; }
  [[nodiscard]] std::vector<ModelListing> models() const;  // Those that are known, sorted by name.
  [[nodiscard]] bool serves(std::uint32_t model) const;    // At least one replica serves it, ready or not.
  // The first group of the model's own replicas.
  [[nodiscard]] std::optional<std::uint32_t> group_of(std::uint32_t model, signals::Role role) const;
  // At least one replica of the role may serve the model now.
  // `pool`: only replicas of this one.
  [[nodiscard]] bool any_eligible(std::uint32_t model, signals::Role role,
                                  std::optional<std::uint32_t> pool = std::nullopt) const;
  // Whether discovery names another healthy replica of the role for the model, ejected or not. `without`: slots that do
  // not count.
  [[nodiscard]] bool any_available(std::uint32_t model, signals::Role role,
                                   std::span<const std::uint32_t> without) const;
  // The groups with replicas of the role that serve the model.
  [[nodiscard]] std::vector<std::uint32_t> groups_of(std::uint32_t model, signals::Role role) const;

  // The life of a request on a slot. The slots of selections and `without` are those of this class.
  [[nodiscard]] std::optional<routing::Selection> choose(std::uint32_t group, const routing::PickRequest& request,
                                                         core::Instant now);
  // Among all replicas of the role that serve the model, or those of one pool. Pools are numbered as in the options;
  // the next number is that of all replicas whose pool is not configured.
  [[nodiscard]] std::optional<routing::Selection> choose(std::uint32_t model, signals::Role role,
                                                         const routing::PickRequest& request, core::Instant now,
                                                         std::optional<std::uint32_t> pool = std::nullopt);
  [[nodiscard]] std::uint32_t pool_of(std::uint32_t slot) const { return groups_[replicas_[slot].group].pool; }
  [[nodiscard]] bool is_idle(std::uint32_t pool) const;  // No aggregated replica of the pool has requests.
  // False if replicas of the pool that serve the model report a smaller context.
  [[nodiscard]] bool holds(std::uint32_t model, std::uint32_t pool, std::uint32_t tokens) const {
    return models_[model].context_tokens.holds(pool, tokens);
  }
  // Returns the period of the replica's breaker, which the end of the attempt repeats.
  std::uint32_t dispatched(const routing::PickRequest& request, const routing::Selection& selection, core::Instant now);
  void first_token(std::uint32_t slot, std::uint32_t uncached_tokens, core::Duration ttft, core::Instant now);
  void assume_first_token(std::uint32_t slot, std::uint32_t uncached_tokens, core::Instant sent_at, core::Instant now);
  void succeeded(std::uint32_t slot, std::uint32_t period, core::Instant now);
  void faulted(std::uint32_t slot, std::uint32_t period, core::Instant now, bool reached = true);
  void busy(std::uint32_t slot, std::uint32_t period, core::Instant now);
  void undecided(std::uint32_t slot, std::uint32_t period, core::Instant now);
  // The request has left the slot; arguments as in PickingStrategy::finished.
  void finished(std::uint32_t slot, std::uint32_t uncached_tokens, std::uint32_t input_tokens,
                std::uint32_t output_tokens, bool answered);

  // Between these calls the prefill replica has one more open transfer. Call hold_kv() before the request leaves it.
  void hold_kv(std::uint32_t slot) { ++replicas_[slot].open_transfers; }
  void release_kv(std::uint32_t slot);

  // Reports of engines.
  [[nodiscard]] routing::PickingStrategy::Load load(std::uint32_t slot, core::Instant now) const;
  void report_load(std::uint32_t slot, const routing::ReportedLoad& load);
  void kv_event(std::uint32_t slot, KvChange change, std::span<const std::uint64_t> keys);
  void reports_cached_tokens(std::uint32_t slot) { replicas_[slot].reports_cached_tokens = true; }
  void prefix_missing(std::uint32_t slot, core::Instant used_at);
  [[nodiscard]] std::vector<routing::PickingStrategy::Holder> holders(std::uint32_t group,
                                                                      std::span<const std::uint64_t> keys,
                                                                      core::Instant now);
  // Of replicas that compute no prompt now.
  [[nodiscard]] std::vector<PrefixHolder> idle_holders(std::uint32_t model, std::span<const std::uint64_t> keys,
                                                       core::Instant now);
  void pinged(std::uint32_t slot, std::span<const std::uint64_t> keys, core::Instant now);

 private:
  static constexpr std::uint32_t kNone = UINT32_MAX;
  static constexpr std::size_t kChangesMax = 1024;
  struct Group {
    std::unique_ptr<routing::PickingStrategy> strategy;
    std::uint32_t pool = 0;                  // 0 without rules for pools.
    std::vector<std::uint32_t> slots;        // Indexed by place.
    std::vector<std::uint32_t> free_places;  // The last one is used first.
    std::uint32_t eligible = 0;
    std::uint32_t suspects = 0;         // Replicas whose latest attempt failed.
    bool uses_slow = false;             // No replica is healthy: those serve whose health checks time out.
    std::uint32_t last_resort = kNone;  // An ejected replica that is eligible because no other is.
  };
  struct KnownModel {
    Model settings;                                      // Defaults if it is not configured.
    std::array<std::vector<std::uint32_t>, 3> groups{};  // Indexed by role; one for each pool.
    // Groups of other models with replicas that serve this one, too. Indexed by role.
    std::array<std::vector<std::uint32_t>, 3> shared{};
    std::uint64_t key_salt = 0;     // Of an adapter; 0: its KV is that of the model of its replicas.
    PoolContexts context_tokens{};  // That its replicas report.
    bool stays_known = false;       // It is configured, or was the model of a replica.
    bool listed = false;            // A replica serves it.
  };

  [[nodiscard]] routing::PickingStrategy& strategy(std::uint32_t slot) {
    return *groups_[replicas_[slot].group].strategy;
  }
  [[nodiscard]] std::uint32_t place(std::uint32_t slot) const { return replicas_[slot].place; }
  std::uint32_t add_model(const Model& settings);
  [[nodiscard]] std::uint32_t take_model(const std::string& name);
  void update_models();
  void inherit_settings(std::uint32_t model, std::uint32_t base);
  [[nodiscard]] bool serves(const Replica& replica, std::uint32_t model) const;
  std::uint32_t add(const ReplicaSpec& spec, core::Instant now);
  // Updates the properties that may change.
  void describe(std::uint32_t slot, const ReplicaSpec& spec, core::Instant now);
  std::uint32_t take_slot();
  std::uint32_t take_group(const ReplicaSpec& spec);
  void update(std::uint32_t slot, core::Instant now);  // Updates whether it may be chosen.
  void set_eligible(std::uint32_t slot, bool eligible, core::Instant now);
  void report_change(Replica& replica, core::Instant now);
  [[nodiscard]] bool is_available(const Replica& replica) const {
    return replica.is_serving() && (replica.is_healthy() || (replica.is_slow() && groups_[replica.group].uses_slow));
  }
  void update_uses_slow(std::uint32_t group);
  // Decides whether the replica is ejected after a failure.
  void judge(std::uint32_t slot, core::Instant now);
  [[nodiscard]] bool may_eject(std::uint32_t slot) const;
  [[nodiscard]] bool may_serve(std::uint32_t slot, core::Instant now);
  void update_last_resort(std::uint32_t group, core::Instant now);
  template <class Visit>
  void each_available(std::uint32_t group, Visit&& visit) const {
    const std::vector<std::uint32_t>& slots = groups_[group].slots;
    for (std::uint32_t place = 0; place < slots.size(); ++place) {
      const Replica& replica = replicas_[slots[place]];
      if (is_available(replica) && replica.group == group && replica.place == place) visit(slots[place]);
    }
  }
  void forget_if_done(std::uint32_t slot);

  const DispatchOptions& options_;
  std::vector<Replica> replicas_;  // Indexed by slot.
  std::vector<Group> groups_;
  std::vector<KnownModel> models_;
  std::map<std::string, std::uint32_t, std::less<>> model_numbers_;
  std::map<std::string, std::uint32_t, std::less<>> by_id_;
  std::vector<std::uint32_t> other_places_;   // Excluded places of one choice.
  std::vector<OutcomeWindow::Counts> peers_;  // Of the replica that is judged.
  std::vector<BreakerChange> changes_;
};

}  // namespace penstock::dispatch
