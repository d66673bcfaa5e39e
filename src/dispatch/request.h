// What a dispatcher is told of a request, and what it answers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "admission/queue.h"
#include "core/time.h"
#include "dispatch/refusal.h"
#include "ledger/entry.h"
#include "routing/picking_strategy.h"

namespace penstock::dispatch {

using Ticket = std::uint64_t;  // 0: none

struct RequestInfo {
  std::string_view request_id;
  std::string_view model;
  std::optional<std::uint32_t>
      model_number;          // Dispatcher::model_number of `model`, where the caller looked it up before
  std::string_view route;    // the path, in memory that outlives the dispatcher; empty: none
  std::uint32_t tenant = 0;  // index into DispatchOptions::tenants
  admission::Class traffic_class = admission::Class::kInteractive;
  std::size_t text_bytes = 0;             // of the prompt
  std::uint32_t prompt_tokens_given = 0;  // where the client sent token numbers: their count
  std::optional<std::uint32_t> max_tokens;
  bool stream = false;  // the caller sees the first token, and reports it
  bool splits = true;   // a prefill and a decode replica may share the request
  std::span<const std::uint64_t> keys;
  std::uint64_t affinity = 0;  // hash of its session; 0: none
  core::Instant received_at;
};

// Where a request goes now.
struct Grant {
  std::uint32_t slot = 0;
  std::uint64_t replica = 0;                // ReplicaSpec::number
  bool prefill_only = false;                // the first of two legs: the KV goes on to a decode replica
  std::optional<std::uint32_t> max_tokens;  // what the request's max_tokens is clamped to
  std::uint32_t prompt_tokens = 0;          // as estimated
  routing::PickReason why = routing::PickReason::kLoad;
};

// Either a refusal, or a ticket with a grant, or a ticket of a request that waits.
struct ArrivalResult {
  Ticket ticket = 0;
  std::optional<Grant> grant;
  std::optional<Refusal> refusal;
};

// Receives what became of a request that waited. It is called within calls of the dispatcher and must not call it.
class GrantListener {
 public:
  virtual void deliver(Ticket ticket, const Grant& grant) = 0;
  virtual void deliver(Ticket ticket, const Refusal& refusal) = 0;

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

// What an engine counted.
struct TokenUsage {
  std::uint32_t prompt_tokens = 0, output_tokens = 0, cached_tokens = 0;
  bool cached_known = true;  // false: the engine reported nothing of its cache
};

struct RequestOutcome {
  ledger::Outcome outcome = ledger::Outcome::kCompleted;
  std::optional<TokenUsage> usage;  // where the engine reported it
  std::uint32_t output_events = 0;  // that went by, where it did not
  core::Instant last_token_at;
};

// Where ledger entries are kept. Called within calls of the dispatcher: it must not block.
class LedgerSink {
 public:
  virtual ~LedgerSink() = default;
  virtual void opened(const ledger::Entry& entry) = 0;  // not called for a request that ends at once
  virtual void closed(const ledger::Entry& entry) = 0;
};

}  // namespace penstock::dispatch
