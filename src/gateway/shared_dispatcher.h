// The dispatcher that all threads of a gateway share, and how the replicas that it chooses are reached.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dispatch/dispatcher.h"
#include "gateway/hot_prefix_cache.h"
#include "gateway/options.h"
#include "gateway/target.h"

namespace penstock::gateway {

struct RoutedGrant : dispatch::Grant {
  std::shared_ptr<const Target> target;
};

struct RoutedArrival {  // see dispatch::ArrivalResult
  dispatch::Ticket ticket = 0;
  std::optional<RoutedGrant> grant;
  std::optional<dispatch::Refusal> refusal;
};

struct Overview : dispatch::Overview {
  std::vector<std::string> urls;  // of its replicas, in their order
};

// Locks a dispatcher once for each call; no call waits for anything else. All calls from any thread; listeners are called
// while the lock is held, and pass on what they receive.
class SharedDispatcher {
 public:
  SharedDispatcher(const GatewayOptions& options, std::unique_ptr<dispatch::LedgerSink> sink);

  // The life of a request, as dispatch::Dispatcher has it.
  [[nodiscard]] RoutedArrival arrive(const dispatch::RequestInfo& info, dispatch::GrantListener& listener,
                                     core::Instant now);
  void attempt_ended(dispatch::Ticket ticket, dispatch::Attempt attempt, core::Instant now);
  [[nodiscard]] std::optional<RoutedGrant> route_again(dispatch::Ticket ticket, core::Instant now);
  [[nodiscard]] std::optional<RoutedGrant> route_decode(dispatch::Ticket ticket, core::Instant now);
  void answered(dispatch::Ticket ticket, core::Instant now);
  void ended(dispatch::Ticket ticket, const dispatch::RequestOutcome& outcome, core::Instant now);
  // Only within GrantListener::deliver(), where the lock is held.
  [[nodiscard]] RoutedGrant routed(const dispatch::Grant& grant) const;

  // Returns the changes of circuit breakers since the last call.
  [[nodiscard]] std::vector<dispatch::BreakerChange> tick(core::Instant now);
  void set_replicas(const std::vector<ReplicaEndpoint>& replicas, core::Instant now);  // models must be known
  void set_health(std::string_view id, bool healthy, core::Instant now);
  void report_load(std::string_view id, const routing::ReportedLoad& load);
  void kv_event(std::string_view id, dispatch::KvChange change, std::span<const std::uint64_t> keys);

  [[nodiscard]] Overview overview(core::Instant now) const;
  [[nodiscard]] bool ready(core::Instant now) const;  // some replica may be chosen
  [[nodiscard]] std::uint32_t open_requests() const;  // running or waiting
  [[nodiscard]] dispatch::TrafficLog::Page traffic(std::uint64_t after, std::size_t events_max) const;
  // Those that are configured or that some replica served since the start: requests for others are refused with 404.
  [[nodiscard]] std::vector<std::string> models() const;
  [[nodiscard]] std::vector<dispatch::PrefixHolder> idle_holders(const PrefixText& prefix, core::Instant now);
  void pinged(std::uint32_t slot, const PrefixText& prefix, core::Instant now);
  // It has a lock of its own. Null: switched off.
  [[nodiscard]] HotPrefixCache* hot_prefixes() { return hot_prefixes_ ? &*hot_prefixes_ : nullptr; }

 private:
  [[nodiscard]] std::optional<RoutedGrant> routed(const std::optional<dispatch::Grant>& grant) const;

  struct Known {  // a replica that discovery named last
    ReplicaEndpoint endpoint;
    std::shared_ptr<const Target> target;
  };

  mutable std::mutex mutex_;
  dispatch::Dispatcher dispatcher_;
  std::map<std::uint64_t, Known> known_;  // by ReplicaSpec::number
  std::uint64_t next_number_ = 0;
  std::optional<HotPrefixCache> hot_prefixes_;
};

}  // namespace penstock::gateway
