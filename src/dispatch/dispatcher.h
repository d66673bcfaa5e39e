// Decides about every request: whether it is admitted, where it goes, and what it took in the end.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "admission/admission_controller.h"
#include "dispatch/active_requests.h"
#include "dispatch/deferral.h"
#include "dispatch/options.h"
#include "dispatch/overview.h"
#include "dispatch/peer_budgets.h"
#include "dispatch/replica_set.h"
#include "dispatch/request.h"
#include "dispatch/request_ledger.h"
#include "dispatch/request_router.h"
#include "dispatch/retries.h"
#include "dispatch/traffic_feed.h"

namespace penstock::dispatch {

// A request's life: arrive() → [deliver() →] for each failed attempt attempt_ended() and route_again() → answered()
// at its first token → ended(), which also ends the last attempt and is the last call for a ticket. Calls for a ticket
// that has ended do nothing. Pure: time is an argument and never goes back; nothing is called but listeners and the
// sink. Not thread-safe.
class Dispatcher {
 public:
  // `unix_now` is the Unix time at `now`. Without a sink the ledger is only summed, and all budgets start full; a sink
  // knows what earlier processes took from them.
  Dispatcher(DispatchOptions options, std::unique_ptr<LedgerSink> sink, core::Instant now, core::Duration unix_now);
  // Writes what is open: the next start settles it.
  ~Dispatcher();
  Dispatcher(const Dispatcher&) = delete;
  Dispatcher& operator=(const Dispatcher&) = delete;

  // The refusal of any request of the tenant that arrives now, if a limit of the tenant is used up. It is counted.
  [[nodiscard]] std::optional<Refusal> early_refusal(std::uint32_t tenant, core::Instant now);
  [[nodiscard]] ArrivalResult arrive(const RequestInfo& received, GrantListener& listener, core::Instant now);
  void attempt_ended(Ticket ticket, Attempt attempt, core::Instant now);
  // A replica other than those that failed the request. None: there is none, or retries are used up.
  [[nodiscard]] std::optional<Grant> route_again(Ticket ticket, core::Instant now);
  // Whether route_again() could find a replica if the present attempt failed. What it needs may return later.
  [[nodiscard]] bool may_retry(Ticket ticket, core::Instant now);
  // The prompt of a disaggregated request is computed; it leaves its prefill replica, and waits for route_decode(). Its
  // transfer is open at the prefill replica until answered(), a failed attempt of the second leg, or its end.
  void prefilled(Ticket ticket, core::Instant now);
  // The second leg of a disaggregated request; calls prefilled() where the caller did not. None: no decode replica may
  // be chosen now; the call may be repeated.
  [[nodiscard]] std::optional<Grant> route_decode(Ticket ticket, core::Instant now);
  void answered(Ticket ticket, core::Instant now);
  // Counts of open streams that have grown, for the ledger.
  void report_progress(std::span<const Progress> streams, core::Instant now);
  void ended(Ticket ticket, const RequestOutcome& outcome, core::Instant now);

  // Admits what may be admitted by now, refuses what has waited too long, tries broken replicas again.
  void tick(core::Instant now);
  [[nodiscard]] std::vector<BreakerChange> take_breaker_changes() { return replicas_.take_breaker_changes(); }
  // The earliest time at which tick() could do something; kNever: nothing before the next call. A caller that waits for
  // it needs no polling. O(1) while no request waits, else O(tenants that wait).
  [[nodiscard]] core::Instant next_wake(core::Instant now) const;

  // What this gateway took from its budgets; the caller adds who it is. O(tenants).
  [[nodiscard]] BudgetReport budget_report(core::Instant now) const {
    return report_of(admission_, options_.tenants, now);
  }
  void change_budgets(const BudgetChanges& changes, core::Instant now) {
    apply(changes, admission_, now);
    room_changed_ = true;
  }

  // Applies the options. Tenants keep their numbers: new ones come last, and one that was
  // removed stays in the list. Requests that wait keep their tier and their deadline.
  void reconfigure(const ReloadableOptions& options, core::Instant now);

  // All replicas there are: one that is not named is forgotten as soon as its requests have ended.
  void set_replicas(const std::vector<ReplicaSpec>& specs, core::Instant now);
  [[nodiscard]] std::optional<std::uint32_t> slot_of(std::string_view replica) const {
    return replicas_.slot_of(replica);
  }
  // False while models of replicas may be missing in what set_replicas() has named: a request for an unknown model is
  // then refused with kNoReplica. True at first.
  void set_models_complete(bool complete) { models_complete_ = complete; }
  // By slot. What waits is looked at by the next tick().
  void set_health(std::uint32_t slot, ReplicaHealth health, core::Instant now);
  // The last time when a first token, further tokens or the end of an answer came from the slot; 0 before the first.
  [[nodiscard]] core::Instant answered_at(std::uint32_t slot) const { return replicas_.replica(slot).answered_at; }
  void report_load(std::uint32_t slot, const routing::ReportedLoad& load);
  void kv_event(std::uint32_t slot, KvChange change, std::span<const std::uint64_t> keys);

  // For RequestInfo::model_number. None: the model is not configured, and no replica served it since the start.
  [[nodiscard]] std::optional<std::uint32_t> model_number(std::string_view model) const {
    return replicas_.model_number(model);
  }
  [[nodiscard]] std::vector<ModelListing> models() const { return replicas_.models(); }
  [[nodiscard]] std::vector<PrefixHolder> idle_holders(std::string_view model, std::span<const std::uint64_t> keys,
                                                       core::Instant now);
  // A prompt that no user sent goes to the slot.
  void pinged(std::uint32_t slot, std::string_view model, std::span<const std::uint64_t> keys, core::Instant now);

  [[nodiscard]] const DispatchOptions& options() const { return options_; }
  [[nodiscard]] Overview overview(core::Instant now) const;
  [[nodiscard]] std::vector<ReplicaStatus> replicas(core::Instant now) const;  // the overview's, at less cost
  // The overview's, at less cost.
  [[nodiscard]] std::vector<SegmentOverload> overload() const { return counters_.overload.list(options_.tenants); }
  [[nodiscard]] TrafficLog::Page traffic(std::uint64_t after, std::size_t events_max) const {
    return feed_.log().after(after, events_max);
  }

  // For worlds that check what they do.
  [[nodiscard]] const Counters& counters() const { return counters_; }
  [[nodiscard]] std::uint32_t open_requests() const { return requests_.size(); }  // running or waiting
  // Requests that are at the slot, or whose KV may still be fetched from it. Without them the replica may be stopped.
  [[nodiscard]] std::uint32_t open_requests(std::uint32_t slot) const {
    return replicas_.replica(slot).open_requests + replicas_.replica(slot).open_transfers;
  }
  [[nodiscard]] admission::AdmissionController::Tenant tenant(std::uint32_t tenant, core::Instant now) const {
    return admission_.tenant(tenant, now);
  }
  // Of the model with these meters, and of one pool.
  [[nodiscard]] auto waiting_for_room(std::uint32_t meters, std::uint32_t pool) const {
    return admission_.waiting_for_room(queue_number(options_.pools, meters, pool));
  }
  [[nodiscard]] const ledger::Balance& balance() const { return ledger_.balance(); }
  // Counts what is open as lost, as the ledger's next start does. No call but counters() and balance() may follow.
  void lose_open() { ledger_.lose_open(requests_); }
  // A sentence with the first invariant that does not hold; empty: all do. O(open requests).
  [[nodiscard]] std::string invariant_violation(core::Instant now) const;

 private:
  void set_tenants(core::Instant now);
  // The keys of a prompt for the model, as replicas_ knows them.
  [[nodiscard]] std::vector<std::uint64_t> salted_keys(std::uint32_t model, std::span<const std::uint64_t> keys) const;
  void restore_budgets(core::Instant now);
  ActiveRequest& open(const RequestInfo& info, std::uint32_t model, GrantListener& listener,
                      const admission::TokenEstimate& estimate);
  void grant(ActiveRequest& request, core::Instant now);
  [[nodiscard]] Grant dispatch(ActiveRequest& request, const RequestRouter::Choice& choice, core::Instant now);
  Refusal refuse(const RequestInfo& info, Refusal refusal);
  void count(const Refusal& refusal) { ++counters_.refusals[static_cast<std::size_t>(refusal.reason)]; }
  void refuse_waiting(const admission::Refused& refused, core::Instant now);
  // The request waited and is never admitted.
  void drop(ActiveRequest& request, ledger::Outcome outcome, core::Instant now);
  void settle(ActiveRequest& request, const RequestOutcome& outcome, core::Instant now);
  // Refuses what has waited too long and admits what may be admitted.
  void pump(core::Instant now);

  DispatchOptions options_;
  bool models_complete_ = true;
  admission::AdmissionController admission_;
  ReplicaSet replicas_;
  RequestRouter router_;
  ActiveRequests requests_;
  RequestLedger ledger_;
  TrafficFeed feed_;
  bool room_changed_ = false;  // since what waits was last looked at
  Counters counters_;
  RetryBudget retry_budget_;
  Deferral deferral_;
};

}  // namespace penstock::dispatch
