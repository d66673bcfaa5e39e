// The dispatcher that all threads of a gateway share, and the endpoints of the replicas that it chooses.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dispatch/dispatcher.h"
#include "gateway/dropped_controls.h"
#include "gateway/hot_prefix_cache.h"
#include "gateway/options.h"
#include "gateway/target.h"
#include "telemetry/message_metrics.h"

namespace penstock::gateway {

struct RoutedGrant : dispatch::Grant {
  std::shared_ptr<const Target> target;
  std::shared_ptr<const Target>
      prefiller{};  // Shall compute the prompt for it; null: that happens elsewhere or before.
};

struct RoutedArrival {  // See dispatch::ArrivalResult.
  dispatch::Ticket ticket = 0;
  std::optional<RoutedGrant> grant;
  std::optional<dispatch::Refusal> refusal;
  bool count_prompt = false;
  std::optional<core::PromptExcess> prompt_excess;
  std::uint32_t prompt_tokens = 0;
  bool moved_to_batch = false;
};

// Why a replica gets no requests, why they fail, or why its load is not known.
struct ReplicaProblem {
  std::string replica, url;
  std::string_view code;  // "unauthorized", "unreachable", "unhealthy", "asleep", "model_unknown", …
  std::string text;
  bool operator==(const ReplicaProblem&) const = default;
};

struct DroppedControl {
  std::string_view kind, name;  // kind: "header" or "field".
  std::uint64_t count = 0;
};

// What is known of other gateways with the same budgets.
struct PeerFigures {
  std::uint32_t reachable = 0, unreachable = 0;  // Addresses, by their last answer; its own is in neither.
  std::uint64_t reports_read = 0, reports_failed = 0;
  std::uint64_t tokens_charged = 0, tokens_returned = 0;  // Of tenants' budgets here, for what the others took.
  // Since the last report of the gateway that has been silent for longest; empty without any.
  std::optional<core::Duration> oldest_report_age{};
};

// Of replicas with the same name, the last one has it; those before it stay until their requests have ended.
struct Overview : dispatch::Overview {
  std::shared_ptr<const net::MemoryBudget> memory;    // Null in tests without a server.
  std::vector<std::string> urls;                      // URLs of its replicas, in the same order.
  std::vector<std::vector<std::string>> fpm;          // Their endpoints of forward pass metrics, in the same order.
  std::vector<telemetry::ReplicaMessages> kv_events;  // Of replicas with KV events.
  std::vector<DroppedControl> dropped_controls;
  std::vector<ReplicaProblem> problems;  // Also of replicas that are not among those above.
  bool models_complete = true;           // The models of all replicas are known.
  std::optional<PeerFigures> peers{};    // Empty without gateway.peers.
  bool draining = false;                 // The gateway is not ready any more, because it ends.
};

// Locks a dispatcher once for each call; no call blocks on anything else. Any thread may call it. Listeners are called
// under the lock and pass on what they receive.
class SharedDispatcher {
 public:
  SharedDispatcher(const GatewayOptions& options, std::unique_ptr<dispatch::LedgerSink> sink);

  // The life of a request, as in dispatch::Dispatcher.
  [[nodiscard]] RoutedArrival arrive(const dispatch::RequestInfo& info, dispatch::GrantListener& listener,
                                     core::Instant now);
  // Replaces the set of models whose prompts some replica may count; see dispatch::ArrivalResult::count_prompt.
  void set_counted_models(std::set<std::string, std::less<>> models);
  [[nodiscard]] std::optional<dispatch::Refusal> early_refusal(std::uint32_t tenant, core::Instant now);
  void attempt_ended(dispatch::Ticket ticket, dispatch::Attempt attempt, core::Instant now);
  [[nodiscard]] std::optional<RoutedGrant> route_again(dispatch::Ticket ticket, core::Instant now);
  [[nodiscard]] bool may_retry(dispatch::Ticket ticket, core::Instant now);
  [[nodiscard]] std::optional<RoutedGrant> route_decode(dispatch::Ticket ticket, core::Instant now);
  void answered(dispatch::Ticket ticket, core::Instant now);
  void report_progress(std::span<const dispatch::Progress> streams, core::Instant now);
  void ended(dispatch::Ticket ticket, const dispatch::RequestOutcome& outcome, core::Instant now);
  // Only within GrantListener::deliver(), which holds the lock.
  [[nodiscard]] RoutedGrant routed(const dispatch::Grant& grant) const;

  // Returns the changes of circuit breakers since the last call.
  [[nodiscard]] std::vector<dispatch::BreakerChange> tick(core::Instant now);
  [[nodiscard]] std::vector<dispatch::SegmentOverload> overload() const;
  void reconfigure(const dispatch::ReloadableOptions& options);
  [[nodiscard]] dispatch::BudgetReport budget_report(core::Instant now) const;
  void change_budgets(const dispatch::BudgetChanges& changes, core::Instant now);
  // The models must be known. A replica that was not in the last list counts as healthy and responsive.
  void set_replicas(const std::vector<ReplicaEndpoint>& replicas, core::Instant now);
  // See dispatch::Dispatcher. The gateway is ready once this was true.
  void set_models_complete(bool complete);
  void set_health(std::string_view id, dispatch::ReplicaHealth health, core::Instant now);
  // See HealthChecker. The threads of the data path read it from the replica's Target.
  void set_unresponsive(std::string_view id, bool unresponsive);
  // Returns true if a part of an answer to a request came from the replica since then.
  [[nodiscard]] bool answered_since(std::string_view id, core::Instant time) const;
  void set_problems(std::vector<ReplicaProblem> problems);
  // A replica answered a request with 401 or 403.
  void credentials_refused(std::string_view id);
  [[nodiscard]] std::vector<std::string> take_refused_credentials();  // Ids since the last call, each once.
  void report_load(std::string_view id, const routing::ReportedLoad& load);
  void kv_event(std::string_view id, dispatch::KvChange change, std::span<const std::uint64_t> keys);
  void count_kv_messages(std::string_view id, const telemetry::MessageCounts& added);

  [[nodiscard]] Overview overview(core::Instant now) const;
  [[nodiscard]] bool models_complete() const;
  // Returns true if at least one replica may be chosen and the models were complete once, or if the fleet may have no
  // replica.
  [[nodiscard]] bool ready(core::Instant now) const;
  [[nodiscard]] std::uint32_t open_requests() const;  // Running and queued requests.
  [[nodiscard]] dispatch::TrafficLog::Page traffic(std::uint64_t after, std::size_t events_max) const;
  // Returns the models that are configured or that any replica has served since the start; requests for other models
  // are refused with 404.
  [[nodiscard]] std::vector<dispatch::ModelListing> models() const;
  [[nodiscard]] std::vector<dispatch::PrefixHolder> idle_holders(const PrefixText& prefix, core::Instant now);
  void pinged(std::uint32_t slot, const PrefixText& prefix, core::Instant now);
  // Has its own lock. Null if it is switched off.
  [[nodiscard]] HotPrefixCache* hot_prefixes() { return hot_prefixes_ ? &*hot_prefixes_ : nullptr; }

  [[nodiscard]] DroppedControls& dropped_controls() { return dropped_controls_; }

 private:
  [[nodiscard]] std::optional<RoutedGrant> routed(const std::optional<dispatch::Grant>& grant) const;

  struct Known {
    ReplicaEndpoint endpoint;
    std::shared_ptr<const Target> target;
    telemetry::MessageCounts kv_events;
    bool listed = true;  // In the latest list from discovery; other replicas stay known while they have requests.
  };

  mutable std::mutex mutex_;
  dispatch::Dispatcher dispatcher_;
  std::map<std::uint64_t, Known> known_;  // By ReplicaSpec::number.
  std::uint64_t next_number_ = 0;
  std::optional<HotPrefixCache> hot_prefixes_;
  DroppedControls dropped_controls_;
  std::shared_ptr<const net::MemoryBudget> memory_;
  std::vector<ReplicaProblem> problems_;
  std::set<std::string, std::less<>> counted_models_;
  bool models_complete_ = true, models_were_complete_ = false;
  std::set<std::string, std::less<>> refused_credentials_;
};

}  // namespace penstock::gateway
