// The requests that a dispatcher handles, by ticket.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "admission/estimator.h"
#include "admission/overload.h"
#include "admission/reservation.h"
#include "core/time.h"
#include "dispatch/request.h"
#include "ledger/entry.h"
#include "signals/segment_meter.h"

namespace penstock::dispatch {

inline constexpr std::uint32_t kNoSlot = UINT32_MAX;

struct ActiveRequest {
  Ticket ticket = 0;  // 0 means that the entry is free.
  GrantListener* listener = nullptr;
  std::uint32_t tenant = 0;
  std::uint32_t model = 0;           // Number of the model in ReplicaSet.
  std::uint32_t meters = 0;          // Index of its meters.
  std::uint32_t pool = 0;            // Index of its own pool; 0 without rules, their number if none matches.
  std::uint32_t context_needed = 0;  // Tokens of one of its prompts and its answer, as far as they are known.
  admission::Class traffic_class = admission::Class::kInteractive;
  admission::OverloadAction overload = admission::OverloadAction::kQueue;  // Under overload.
  admission::TokenEstimate estimate;
  admission::BudgetClaim claim;
  std::size_t text_bytes = 0;
  admission::TextKind text_kind = admission::TextKind::kAscii;
  std::uint32_t media_tokens = 0;
  std::uint32_t prompt_tokens_given = 0, truncated_prompt_tokens = 0;  // As in RequestInfo and Grant.
  std::uint64_t answers = 1;
  // Limit of each answer: the client's, or the one that the reservation needs.
  std::optional<std::uint32_t> max_tokens;
  bool writes_max_tokens = false, lowered = false;  // `lowered`: max_tokens is below the client's.
  std::uint64_t affinity = 0;
  std::string_view route;  // In memory that outlives the dispatcher.
  bool stream = false, splits = true, prefilled = false;
  std::uint64_t prompt_tokens_least = 1, prompt_tokens_most = UINT64_MAX;      // What the prompt can have.
  bool hides_output = false, hides_reasoning = false, repeats_prompt = false;  // As in RequestInfo.
  std::vector<std::uint64_t> keys;                                             // Kept until the request is answered.
  std::uint32_t unshared_keys = 0;                                             // As in RequestInfo.

  std::uint32_t slot = kNoSlot;  // kNoSlot while it waits, or between two replicas.
  std::uint32_t breaker_period = 0;
  bool decodes_only = false;   // Its prompt was computed by a prefill replica.
  bool slot_answered = false;  // Its first token came from this slot.
  // Its prompt was computed before it came to this slot.
  [[nodiscard]] bool decode_only() const { return decodes_only || prefilled; }
  // The prefill replica from which its KV may still be fetched; kNoSlot: none.
  std::uint32_t kv_slot = kNoSlot;
  core::Instant kv_until;
  std::uint32_t uncached_tokens = 0, cached_tokens = 0, input_tokens = 0;  // Values at the selection.
  core::Instant dispatched_at;
  core::Instant overlap_used_at = core::kNever;  // Last time at which the cached prefix of the choice was sent there.
  std::vector<std::uint32_t> failed_slots;
  std::uint32_t attempts = 0;
  Grant grant;  // Grant of a queued request until it is delivered.

  core::Instant received_at, granted_at, answered_at;
  std::optional<core::Instant> prefilled_at;  // The first token of its prompt was computed, on this or another replica.
  // Start of its work for replicas, as reported to planners: the time it was received, or admitted by its tenant's own
  // limits. Empty if planners do not know it.
  std::optional<core::Instant> wanted_at;
  core::Duration completion_window{};   // From received_at to its end; 0: it is not deferred.
  bool deferred = false;                // It waits for spare capacity.
  bool moved_to_batch = false;          // See OverBudget.
  std::optional<core::Instant> due_at;  // Its deadline was so near that it waited no longer.
  double concurrent_at_start = 0.0;     // Requests of each worker of its slot when it went there, itself included.
  bool granted = false, answered = false;
  bool in_sink = false;   // Its open entry was written.
  bool computes = false;  // A replica had the request when it ended.
  // Of the step that its replica computed when the client left, as far as they are charged.
  std::uint64_t step_tokens = 0;
  ledger::Entry entry;

  // The most tokens that all answers may have together; empty without a limit.
  [[nodiscard]] std::optional<std::uint32_t> output_tokens_most() const { return limit_of(answers, max_tokens); }
  [[nodiscard]] signals::RequestTraits traits() const {
    return {estimate.prompt_tokens, tenant, traffic_class == admission::Class::kBatch, cached_tokens > 0, route};
  }
};

// A ticket is never reused, and an ended one is not found. References stay valid until the request is removed.
class ActiveRequests {
 public:
  ActiveRequest& add();
  [[nodiscard]] ActiveRequest* find(Ticket ticket);  // Null if the request has ended.
  void remove(ActiveRequest& request);
  // Releases its keys; their memory is reused.
  void release_keys(ActiveRequest& request);
  [[nodiscard]] std::uint32_t size() const { return size_; }
  // Calls visit(const ActiveRequest&) for each request, in no particular order.
  template <class Visit>
  void for_each(Visit&& visit) const {
    for (const auto& place : places_)
      if (place->ticket != 0) visit(*place);
  }

 private:
  static constexpr std::uint32_t kPlaceBits = 24;
  static constexpr std::size_t kSpareKeysMax = 64;        // Number of vectors kept for reuse …
  static constexpr std::size_t kSpareCapacityMax = 1024;  // … and their maximum capacity.
  std::vector<std::unique_ptr<ActiveRequest>> places_;
  std::vector<std::uint32_t> free_;
  std::vector<std::vector<std::uint64_t>> spare_keys_;
  std::uint64_t serial_ = 0;
  std::uint32_t size_ = 0;
};

}  // namespace penstock::dispatch
