// Where every request is decided, once for all threads: whether it may go, where it goes, and what it took in the end.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "api/answer.h"
#include "core/time.h"
#include "gateway/hot_prefix_cache.h"
#include "gateway/options.h"
#include "gateway/refusal.h"
#include "gateway/target.h"
#include "gateway/traffic_log.h"
#include "ledger/balance.h"
#include "ledger/entry.h"
#include "routing/endpoint_picker.h"
#include "signals/segment_meter.h"

namespace penstock::gateway {

using Ticket = std::uint64_t;  // 0: none

// Where a request goes now.
struct Grant {
  std::shared_ptr<const Target> target;
  bool prefill_only = false;                // the first of two legs: the KV goes on to a decode replica
  std::optional<std::uint32_t> max_tokens;  // what it is clamped to
  std::uint32_t prompt_tokens = 0;          // as estimated
  routing::PickReason why = routing::PickReason::kLoad;
};

// What a thread found out about a request.
struct RequestInfo {
  std::string_view request_id, model;
  std::string_view route;  // the path, in memory that stays
  std::uint32_t tenant = 0;
  admission::Class traffic_class = admission::Class::kInteractive;
  std::size_t text_bytes = 0;
  std::uint32_t prompt_tokens_given = 0;
  std::optional<std::uint32_t> max_tokens;
  bool stream = false;  // between the replica and us
  bool splits = true;   // a prefill and a decode replica may share it
  std::span<const std::uint64_t> keys;
  std::uint64_t affinity = 0;
  core::Instant received_at;
};

// Exactly one of the three.
struct Answer {
  Ticket ticket = 0;           // of a request that was let in or waits
  std::optional<Grant> grant;  // let in
  std::optional<Refusal> refusal;
};

// Told what became of a request that waited; on any thread, while the dispatcher is locked: pass it on and return.
class GrantListener {
 public:
  virtual void deliver(Ticket ticket, Grant grant) = 0;
  virtual void deliver(Ticket ticket, Refusal refusal) = 0;

 protected:
  ~GrantListener() = default;
};

// How one attempt at one replica went.
enum class Attempt : std::uint8_t {
  kAnswered,   // with anything that is not the replica's fault
  kBusy,       // 429 or 503
  kFaulted,    // not reached, cut off, hung, garbage, or another 5xx
  kAbandoned,  // the client left before one could tell
};

struct RequestOutcome {
  ledger::Outcome outcome = ledger::Outcome::kCompleted;
  std::optional<api::Usage> usage;  // the engine's figures, where it told them
  std::uint32_t output_events = 0;  // that went by, where it did not
  core::Instant last_token_at;
};

// Where entries go for good. Called while the dispatcher is locked: must not block.
class LedgerSink {
 public:
  virtual ~LedgerSink() = default;
  virtual void opened(const ledger::Entry& entry) = 0;  // not of what ends at once
  virtual void closed(const ledger::Entry& entry) = 0;
};

struct ReplicaStatus {
  ReplicaSpec spec;
  std::uint32_t slot = 0;
  bool healthy = true;
  bool breaker_open = false;
  std::uint64_t requests_total = 0, failures_total = 0, busy_total = 0;
  routing::EndpointPicker::Load load;
};

struct TenantStatus {
  std::string name;
  double budget_available = -1.0;  // tokens; below 0: no limit
  std::uint32_t running = 0, waiting = 0;
  // 0..1, of its tokens a minute or its concurrent requests, whichever is nearer its limit; none: it has no limit.
  std::optional<double> saturation{};
};

struct ModelStatus {
  std::string model;
  signals::PoolDetail detail;            // of the last minute
  core::QuantileSketch ttft_ms, itl_ms;  // since the start
  std::uint32_t waiting_for_room = 0;    // not those whom limits of their tenant or class hold up
  core::Instant oldest_for_room = core::kNever;
};

struct Overview {
  core::Instant now;
  std::vector<ReplicaStatus> replicas;
  std::vector<TenantStatus> tenants;
  std::vector<ModelStatus> models;
  std::vector<std::pair<std::pair<std::string, std::string>, ledger::Sums>> sums;  // by tenant and model
  std::uint32_t waiting_interactive = 0, waiting_batch = 0, running = 0;
  std::uint64_t waiting_tokens = 0;
  core::Instant oldest_waiting = core::kNever;
  std::uint64_t granted_total = 0, refused_total = 0, retried_total = 0, clamped_total = 0;
  std::vector<std::pair<std::string, std::uint64_t>> refusals;  // by code
  std::optional<double> prompt_error, output_error;             // of the estimates
};

// A replica that is believed to hold a prefix and computes no prompt now.
struct PrefixHolder {
  std::string replica;
  std::uint32_t slot = 0;
  core::Instant sent_at;  // the prefix, last, to this replica
};

// A lock is taken once for each call; no call waits for anything else. All calls from any thread.
//
// A request's life: arrive() → [deliver() →] for each attempt attempt_ended(), and where it may go on route_again() →
// answered() at its first token → ended(), which is the last call for a ticket.
class Dispatcher {
 public:
  Dispatcher(const GatewayOptions& options, std::unique_ptr<LedgerSink> sink);
  ~Dispatcher();

  [[nodiscard]] Answer arrive(const RequestInfo& info, GrantListener& listener, core::Instant now);
  void attempt_ended(Ticket ticket, Attempt attempt, core::Instant now);
  // Another replica than those that failed it; with `decode`, the second leg of a disaggregated request.
  // None: there is none, or retries are used up.
  [[nodiscard]] std::optional<Grant> route_again(Ticket ticket, core::Instant now);
  [[nodiscard]] std::optional<Grant> route_decode(Ticket ticket, core::Instant now);
  void answered(Ticket ticket, core::Instant now);
  void ended(Ticket ticket, const RequestOutcome& ending, core::Instant now);

  // Let in what may be let in by now, refuse what has waited too long, try broken replicas again. Some ten times a second.
  void tick(core::Instant now);

  // All replicas there are: what is not named is gone as soon as its requests have ended. Models must be known.
  void set_replicas(const std::vector<ReplicaSpec>& specs, core::Instant now);
  void set_health(std::string_view id, bool healthy, core::Instant now);
  void report_load(std::string_view id, const routing::ReportedLoad& load);
  enum class KvChange : std::uint8_t { kStored, kRemoved, kCleared, kLost };  // kLost: some events are missing
  void kv_event(std::string_view id, KvChange change, std::span<const std::uint64_t> keys);

  [[nodiscard]] Overview overview(core::Instant now) const;
  [[nodiscard]] std::vector<ReplicaStatus> replicas(
      core::Instant now) const;  // the same as the overview's, at less cost
  [[nodiscard]] TrafficLog::Page traffic(std::uint64_t after, std::size_t events_max) const;
  // Those that are configured or that some replica served since the start: requests for others are refused with 404.
  [[nodiscard]] std::vector<std::string> models() const;
  [[nodiscard]] std::vector<PrefixHolder> idle_holders(const PrefixText& prefix, core::Instant now) const;
  void pinged(std::uint32_t slot, const PrefixText& prefix, core::Instant now);
  // Has a lock of its own. Null: switched off.
  [[nodiscard]] HotPrefixCache* hot_prefixes();

 private:
  struct State;
  mutable std::mutex mutex_;
  std::unique_ptr<State> state_;
};

}  // namespace penstock::gateway
