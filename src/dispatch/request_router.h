// Chooses slots for requests, and keeps the picking strategies informed of what became of them.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <queue>
#include <utility>
#include <vector>

#include "admission/pressure.h"
#include "core/time.h"
#include "dispatch/active_requests.h"
#include "dispatch/answer_times.h"
#include "dispatch/options.h"
#include "dispatch/overview.h"
#include "dispatch/replica_set.h"
#include "signals/slo.h"

namespace penstock::dispatch {

// An engine releases KV that was not fetched for this time: vLLM's default.
inline constexpr core::Duration kKvHold = std::chrono::minutes{8};

// Not thread-safe.
class RequestRouter {
 public:
  RequestRouter(const DispatchOptions& options, ReplicaSet& replicas) : options_(options), replicas_(replicas) {}

  // Index of the request's own pool: the first that matches and whose replicas can hold it, or else the first that
  // matches. 0 without rules.
  [[nodiscard]] std::uint32_t own_pool(const ActiveRequest& request) const;

  [[nodiscard]] std::vector<PoolStatus> pools() const;  // By the rules, in their order.

  // The replica that would take the request now.
  struct Choice {
    routing::Selection selection;
    bool prefill_only = false;
  };
  [[nodiscard]] std::optional<Choice> choose(const ActiveRequest& request, core::Instant now);
  // Whether choose() may find a replica, however full it is.
  [[nodiscard]] bool has_replica(const ActiveRequest& request) const;
  // Whether the pressure on that replica lets the request in. Always, where the strategy is a peer's.
  [[nodiscard]] admission::Verdict verdict(const ActiveRequest& request, const Choice& choice, core::Instant now) const;

  // Whether the replica has capacity that no interactive request needs: it computes no prompt, that of the request
  // takes at most half the TTFT objective or half of the other replicas are free of prompts, and with the request its
  // ITL and its KV usage stay below a share of their limits. An interactive request that arrives then meets the prompt
  // of one such request at most.
  [[nodiscard]] bool has_spare(const ActiveRequest& request, const Choice& choice, const AnswerTimes& times,
                               core::Instant now);

  // The request goes to its choice. `waiting_tokens`: tokens that wait in its class and in
  // those with precedence.
  Grant dispatch(ActiveRequest& request, const Choice& choice, std::uint64_t waiting_tokens, core::Instant now);
  // Open requests of each worker of its slot, itself included; 0 without a slot.
  [[nodiscard]] double concurrent(const ActiveRequest& request) const;
  // Its first token came from its slot.
  void first_token(ActiveRequest& request, core::Instant now);
  // It leaves its slot, and the prefill replica of its KV, if it has them.
  void leave(ActiveRequest& request);
  // It leaves its prefill replica, which stays open to it until release_kv(), for kKvHold at most.
  void leave_prefill(ActiveRequest& request, ActiveRequests& requests, core::Instant now);
  // Its KV is not fetched from its prefill replica any more, if it had one.
  void release_kv(ActiveRequest& request);
  void release_late_kv(ActiveRequests& requests, core::Instant now);  // After kKvHold.
  [[nodiscard]] core::Instant next_kv_release() const {
    return held_kv_.empty() ? core::kNever : held_kv_.front().first;
  }
  // Compares the expected cached tokens with the measured ones. Call it before the request leaves its slot.
  void correct_cache(const ActiveRequest& request, const RequestOutcome& outcome);

  // The first token of an answer that is not streamed is not observed, so the expected time is used.
  void assume_first_tokens(ActiveRequests& requests, core::Instant now);
  [[nodiscard]] core::Instant next_assumed() const {
    return unseen_first_tokens_.empty() ? core::kNever : unseen_first_tokens_.top().first;
  }

 private:
  [[nodiscard]] routing::PickRequest pick_request(const ActiveRequest& request) const;
  [[nodiscard]] signals::SloTraits traits_of(const ActiveRequest& request) const;
  // Among the aggregated replicas: its own pool, or another one by the rules.
  [[nodiscard]] std::optional<Choice> choose_whole(const ActiveRequest& request, const routing::PickRequest& pick,
                                                   core::Instant now);
  [[nodiscard]] bool may_overflow(const ActiveRequest& request, const signals::SloTraits& traits,
                                  std::uint32_t pool) const;
  [[nodiscard]] std::optional<Choice> choose_of(std::uint32_t model, signals::Role role,
                                                const routing::PickRequest& request, core::Instant now);

  const DispatchOptions& options_;
  ReplicaSet& replicas_;
  std::vector<PoolStatus> attempts_;  // By own pool, without names; empty before the first one.
  using Unseen = std::pair<core::Instant, Ticket>;
  std::priority_queue<Unseen, std::vector<Unseen>, std::greater<>> unseen_first_tokens_;
  std::deque<std::pair<core::Instant, Ticket>> held_kv_;  // By the end of their time; some have been released.
};

}  // namespace penstock::dispatch
