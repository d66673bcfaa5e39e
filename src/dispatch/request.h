// The dispatcher's input and results for one request.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "admission/estimator.h"
#include "admission/queue.h"
#include "core/prompt_excess.h"
#include "core/time.h"
#include "dispatch/refusal.h"
#include "ledger/entry.h"
#include "routing/picking_strategy.h"

namespace penstock::dispatch {

using Ticket = std::uint64_t;  // 0 means none.

struct RequestInfo {
  std::string_view request_id;
  std::string_view model;
  std::optional<std::uint32_t> model_number;  // Dispatcher::model_number of `model`, if the caller has looked it up.
  std::string_view route;                     // Path, in memory that outlives the dispatcher; empty if there is none.
  std::uint32_t tenant = 0;                   // Index into DispatchOptions::tenants.
  std::string key_name{};                     // Of the API key, never the key; empty if there is none.
  admission::Class traffic_class = admission::Class::kInteractive;
  std::size_t text_bytes = 0;  // Size of the text of the prompt.
  admission::TextKind text_kind = admission::TextKind::kAscii;
  std::uint32_t media_tokens = 0;         // Tokens of its images, audio and files.
  std::uint32_t prompt_tokens_given = 0;  // Tokens of a prompt of token ids, or that an engine counted.
  bool may_count_prompt = false;          // The caller can let an engine count the prompt.
  // An engine counted the prompt, or the longer one that it was truncated from.
  bool prompt_was_counted = false;
  bool may_truncate_prompt = false;                 // The caller can shorten the prompt.
  std::uint32_t untruncated_prompt_tokens = 0;      // Of the prompt before it was truncated; 0: it was not.
  std::uint32_t template_tokens = 0;                // The most tokens that the template of a chat adds.
  std::uint64_t prompts = 1;                        // Number of prompts in the request; each has the context to itself.
  std::uint64_t answers = 1;                        // Number of prompts times answers to each.
  std::optional<std::uint32_t> max_tokens;          // Of each answer; 0 if the endpoint generates none.
  std::optional<std::uint32_t> max_tokens_default;  // What the API defines for a request without one.
  // Of a replayed request, whose answer is known: its tokens, and those that a gateway reserved (0: unknown). Without
  // an answer that is known, budgets reserve the most that max_tokens allows.
  std::uint32_t known_output_tokens = 0, recorded_reservation = 0;
  std::uint32_t expected_output_tokens = 0;  // What a gateway expected of its answer; 0: it is estimated.
  bool prefilled = false;                    // Its prompt was computed before and is no work for a replica.
  bool writes_max_tokens = false;            // The request must go to the replica with max_tokens written into it.
  bool max_tokens_capped = false;            // A cap of the dispatcher's options has lowered max_tokens.
  bool stream = false;                       // The caller observes the first token and reports it.
  bool splits = true;                        // A prefill and a decode replica may share the request.
  bool cuts_prompt = false;                  // The engine may leave out a part of the text, for example tools.
  bool hides_output = false;                 // The answer may have tokens that its text does not show.
  bool hides_reasoning = false;              // The answer leaves reasoning out.
  bool repeats_prompt = false;               // The answer begins with the prompt.
  bool extends_prompt = false;               // The prompt may have as many further tokens as its context.
  std::span<const std::uint64_t> keys;
  std::uint32_t unshared_keys = 0;    // Number of further keys, if the caller knows that no other prompt has them.
  std::uint64_t affinity = 0;         // Hash of its session; 0 if it has none.
  std::optional<std::uint32_t> pool;  // Index of its own pool, if the caller knows it; otherwise the rules name it.
  core::Instant received_at;
  // The client wants the answer within this time, where requests of its class are deferred.
  std::optional<core::Duration> completion_window{};
  bool moved_to_batch = false;  // The dispatcher has lowered its class, because its tenant is over its limits.
};

// The most tokens that `answers` of `max_tokens` have together, at most UINT32_MAX; empty without a limit.
[[nodiscard]] inline std::optional<std::uint32_t> limit_of(std::uint64_t answers,
                                                           std::optional<std::uint32_t> max_tokens) {
  if (!max_tokens) return std::nullopt;
  if (*max_tokens > 0 && answers > UINT32_MAX / *max_tokens) return UINT32_MAX;
  return static_cast<std::uint32_t>(answers * *max_tokens);
}

// The replica that a request goes to.
struct Grant {
  std::uint32_t slot = 0;
  std::uint64_t replica = 0;                  // ReplicaSpec::number.
  bool prefill_only = false;                  // First of two legs: the KV is transferred to a decode replica.
  std::optional<std::uint32_t> max_tokens;    // Must be written into the request; empty: the request stays as it is.
  bool degraded = false;                      // It was lowered because too many tokens wait.
  bool moved_to_batch = false;                // Its class was lowered; see OverBudget.
  bool lowers_max_tokens = false;             // It is below what the client requested, or would get without a limit.
  std::uint32_t prompt_tokens = 0;            // Estimated.
  std::uint32_t truncated_prompt_tokens = 0;  // Estimated tokens that were dropped from the prompt.
  // The request was deferred and waited for a replica since then, because its deadline is near.
  std::optional<core::Instant> due_at{};
  admission::RateLimits rate_limits{};  // Of its tenant, with this request.
  routing::PickReason why = routing::PickReason::kLoad;

  // The value that the client is told.
  [[nodiscard]] std::optional<std::uint32_t> lowered_max_tokens() const {
    return lowers_max_tokens ? max_tokens : std::nullopt;
  }
};

// Contains a refusal, or a ticket with a grant, or the ticket of a queued request, or count_prompt.
struct ArrivalResult {
  Ticket ticket = 0;
  std::optional<Grant> grant;
  std::optional<Refusal> refusal;
  std::uint32_t pool = 0;  // Index of its own pool; 0 without rules, their number if none matches.
  // The request counts as work for replicas. It does not if a limit of its tenant or class holds it up or refuses it,
  // or if it can never be served. A request that waits becomes work at the latest with its grant.
  bool is_work = false;
  std::uint32_t expected_output_tokens = 0;  // Of its answer.
  bool moved_to_batch = false;               // Its class was lowered; see OverBudget.
  // The request may wait for spare capacity for this long; 0: it is not deferred.
  core::Duration completion_window{};
  // Nothing was decided, because the prompt may fit into the context or not. The request shall arrive again, with the
  // count of an engine in prompt_tokens_given, or without may_count_prompt.
  bool count_prompt = false;
  // Nothing was decided, because the prompt exceeds the context and the policy is to truncate it. The request shall
  // arrive again with the shorter prompt, or without may_truncate_prompt.
  std::optional<core::PromptExcess> prompt_excess{};
  std::uint32_t prompt_tokens = 0;  // Of the prompt that has the excess.
};

// Receives the decision about a queued request. Called within calls of the dispatcher, which it must not call.
class GrantListener {
 public:
  virtual void deliver(Ticket ticket, const Grant& grant) = 0;
  virtual void deliver(Ticket ticket, const Refusal& refusal) = 0;

 protected:
  ~GrantListener() = default;
};

// Outcome of one attempt at one replica, known when its answer has ended.
enum class Attempt : std::uint8_t {
  kAnswered,   // Any whole response that is not the replica's fault.
  kBusy,       // 429 or 503.
  kUnreached,  // Unreachable: the replica computed nothing. Otherwise as kFaulted.
  kFaulted,    // Cut off, hung, garbage, another 5xx, an error within the answer or no end of it.
  kAbandoned,  // The client left or the time budget ended before the outcome was known.
};

// Token counts reported by an engine.
struct TokenUsage {
  std::uint32_t prompt_tokens = 0, output_tokens = 0, cached_tokens = 0;
  bool cached_known = true;            // False: the engine reported no cached tokens.
  std::uint32_t reasoning_tokens = 0;  // Of the output, which the answer may not show.
};

// What the gateway saw of the output of an answer.
struct SeenOutput {
  std::uint32_t events = 0;  // Events with text.
  std::uint32_t steps = 0;   // Events of a choice, with text or without.
  std::uint64_t bytes = 0;   // Size of the text, also of an answer that is not streamed.
  bool whole = false;        // The answer has its end.
  [[nodiscard]] bool has_text() const { return events > 0 || bytes > 0; }
};

struct RequestOutcome {
  ledger::Outcome outcome = ledger::Outcome::kCompleted;
  std::optional<Attempt> attempt;   // Outcome of the open attempt; empty if there is none or it is not known.
  std::optional<TokenUsage> usage;  // Empty if the engine did not report it.
  SeenOutput output;
  core::Instant last_token_at;
  core::Duration client_wait{};  // Time for which the answer waited for its client to read.
};

// What an open stream has delivered.
struct Progress {
  Ticket ticket = 0;
  SeenOutput output;
  std::optional<TokenUsage> usage;
};

// Stores ledger entries. Called within calls of the dispatcher, so it must not block.
class LedgerSink {
 public:
  virtual ~LedgerSink() = default;
  // Entries are numbered from here on. Empty: from the Unix time in microseconds.
  [[nodiscard]] virtual std::optional<std::uint64_t> first_entry() const { return std::nullopt; }
  virtual void opened(const ledger::Entry& entry) = 0;  // Not called for a request that ends at once.
  // The tokens of an open entry have grown. It was opened before.
  virtual void grown(const ledger::Entry&) {}
  virtual void closed(const ledger::Entry& entry) = 0;
  // Returns what the entries that were opened since then took from budgets. Called once, before all other functions,
  // and may block.
  [[nodiscard]] virtual std::vector<ledger::PastUse> uses_since(std::int64_t) { return {}; }
};

}  // namespace penstock::dispatch
