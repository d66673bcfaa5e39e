// What the dispatcher keeps under its lock.
#pragma once

#include <array>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <queue>
#include <string>
#include <utility>
#include <vector>

#include "admission/admission_controller.h"
#include "gateway/active_requests.h"
#include "gateway/dispatcher.h"
#include "gateway/replica_set.h"
#include "ledger/balance.h"

namespace penstock::gateway {

struct Dispatcher::State {
  State(const GatewayOptions& settings, std::unique_ptr<LedgerSink> ledger, core::Instant now);

  struct Lane {  // a model
    std::string name;
    signals::SegmentMeter segments;
    core::QuantileSketch ttft_ms, itl_ms;
  };

  const GatewayOptions& options;
  std::unique_ptr<LedgerSink> sink;
  admission::AdmissionController controller;
  ReplicaSet replicas;
  ActiveRequests active_requests;
  ledger::Balance balance;
  TrafficLog traffic;
  std::optional<HotPrefixCache> hot_prefix_cache;
  std::vector<Lane> lanes;
  std::vector<std::string> tenant_names;
  std::int64_t unix_ms_at_start = 0;  // of core::kStart
  std::uint64_t next_entry = 0;
  // Granted, and not yet opened in the ledger for good: most requests have ended by then, and are written once.
  static constexpr core::Duration kOpenedAfter = std::chrono::milliseconds{50};
  std::deque<std::pair<core::Instant, Ticket>> unopened;
  std::uint64_t granted = 0, refused = 0, retried = 0, clamped = 0;
  std::map<std::string, std::uint64_t, std::less<>> refusals;
  // When the prompts of answers that are not streamed should be computed: nobody tells.
  using Unseen = std::pair<core::Instant, Ticket>;
  std::priority_queue<Unseen, std::vector<Unseen>, std::greater<>> unseen_first_tokens;

  // Checks that need no decision: may this tenant use the model, does it exist, does the prompt fit.
  [[nodiscard]] std::optional<Refusal> objection(const RequestInfo& info,
                                                 const admission::TokenEstimate& estimate) const;
  ActiveRequest& open(const RequestInfo& info, GrantListener& listener, const admission::TokenEstimate& estimate);
  [[nodiscard]] std::vector<ReplicaStatus> statuses(core::Instant now) const;
  [[nodiscard]] std::uint32_t lane_of(std::string_view model);
  [[nodiscard]] admission::TokenEstimator::Request estimate_request(const ActiveRequest& request) const;
  [[nodiscard]] std::int64_t unix_ms(core::Instant now) const;

  // The replica that would take it now.
  struct Option {
    std::uint32_t group = 0;
    routing::Selection selection;
    bool prefill_only = false;
  };
  [[nodiscard]] std::optional<Option> choose(const ActiveRequest& request, core::Instant now);
  [[nodiscard]] routing::PickRequest ask_of(const ActiveRequest& request) const;
  [[nodiscard]] admission::Verdict judge(const ActiveRequest& request, const Option& option, core::Instant now) const;
  [[nodiscard]] Grant dispatch(ActiveRequest& request, const Option& option, core::Instant now);
  void grant(ActiveRequest& request, core::Instant now);
  void open_entries(core::Instant now);
  void leave_slot(ActiveRequest& request);
  void assume_first_tokens(core::Instant now);

  // Whin the admission queue says, in OpenAI's words.
  [[nodiscard]] Refusal refusal_of(const admission::Answer& answer, std::string_view model) const;
  Refusal refuse(const RequestInfo& info, Refusal refusal);
  // Beliefs about the replica's cache against what it measured. Before the request leaves its slot.
  void correct_cache(const ActiveRequest& request, const RequestOutcome& ending);
  // One that waited and is never let in.
  void drop(ActiveRequest& request, ledger::Outcome outcome, core::Instant now);
  void settle(ActiveRequest& request, const RequestOutcome& ending, core::Instant now);
  void pump(core::Instant now);
  // A request's first token, for meters and the log.
  void note_first_token(const ActiveRequest& request, core::Instant now);
  void note_end(const ActiveRequest& request, const RequestOutcome& ending, core::Instant now);
  // For planners. What a tenant's or class's own limits hold up or refuse is no work for replicas, and not told.
  void tell_arrival(ActiveRequest& request, core::Instant at);
  void tell_end(const ActiveRequest& request, ledger::Outcome outcome, core::Instant now);
};

}  // namespace penstock::gateway
