// The body of a client's request and the one that is sent to replicas, which may be a changed copy.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/prompt_excess.h"
#include "gateway/replica_call.h"
#include "gateway/request_guard.h"
#include "gateway/request_reading.h"
#include "gateway/request_report.h"
#include "gateway/upstream_request.h"
#include "gateway/worker_context.h"
#include "net/body.h"

namespace penstock::gateway {

// Large bodies are parsed and changed on threads of LargeBodies. While one of them works, it has the bodies to itself,
// and what the client request refers to must stay. Both bodies count for the tenant.
class RequestBody {
 public:
  // `guard` runs what follows the work of another thread.
  RequestBody(WorkerContext& context, RequestGuard& guard) : context_(context), guard_(guard) {}

  // Takes the body of the exchange.
  void take(net::Exchange& exchange);
  // Lets the tenant pay for the body and for the answer. Returns a refusal if it would hold too much memory.
  [[nodiscard]] std::optional<Refusal> charge_to(std::uint32_t tenant, net::Exchange& exchange);
  [[nodiscard]] std::string_view view() const { return body_.view(); }

  // Calls `done` with the refusal, if there is one, now or later; `context.scratch` and
  // `context.keys` then describe the request.
  template <class Done>
  void parse(api::Endpoint endpoint, Done&& done) {
    if (is_large()) return parse_elsewhere(endpoint, nullptr, std::forward<Done>(done));
    const auto parsed = parse_body(context_.reader, endpoint, body_, context_.settings->options.dispatch.key_tokens,
                                   context_.scratch, context_.keys);
    done(refusal_of(parsed));
  }
  // Replaces the body by one with a shorter prompt, if a part of it may be dropped, and calls `done`, now or later,
  // with the number of messages that were dropped, empty if the body is unchanged. `context.scratch` and
  // `context.keys` then describe the body. After take_settings(). Throws std::bad_alloc, later to the guard, if there
  // is no memory.
  using Truncated = std::function<void(std::optional<std::uint32_t> messages)>;
  void truncate(api::Endpoint endpoint, const core::PromptExcess& excess, Truncated done);
  // Keeps the settings that apply to a parsed request, because they may change while it waits. Returns whether its
  // client may see the replica and the reason for its choice.
  [[nodiscard]] bool take_settings(const ReadRequest& read);

  // Offers the beginnings of the prompt to the cache of hot prefixes.
  void offer_prefixes(const ReadRequest& read) const;

  [[nodiscard]] ClientRequest as_request(const net::RequestHead& head, std::string_view engine_request_id,
                                         api::Endpoint endpoint, bool collect) const {
    return {head, body_.view(), out_->edit, out_->changes, engine_request_id, endpoint, collect};
  }
  // Builds the body for the replica and calls `done`, now or later.
  void prepare(const ClientRequest& client, const RoutedGrant& grant, std::string kv_transfer_params,
               std::function<void()> done);
  // Builds the body that lets an engine count the prompt, and calls `done` with it, now or later.
  void prepare_count(std::function<void(std::string)> done);
  [[nodiscard]] UpstreamRequest& upstream() { return out_->upstream; }

  // Frees bodies that were sent if no other replica can take the request. To be called in regular intervals while the
  // request waits for its answer: a pooled connection that its replica has just closed fails within one interval, and
  // the request is then sent again.
  void release_if_last(Phase phase, dispatch::Ticket ticket, ReplicaCall& call);
  [[nodiscard]] bool is_released() const { return is_released_; }
  // The request is not sent again.
  void sent_for_the_last_time(bool keep_memory);
  // Frees the bodies and calls `done`, later if another thread still works for the request.
  void release(bool keep_memory, std::function<void()> done);

 private:
  using Parsed = std::function<void(std::optional<Refusal>)>;
  // What another thread reads of a body.
  struct LargeBody {
    api::InferenceRequest request;  // Without the text of the prompt.
    std::vector<std::uint64_t> keys;
    net::MemoryHold hold;
    core::Result<void> parsed;
  };

  // What is sent to replicas. A stream that has begun does without it.
  struct Outgoing {
    std::string cache_salt;  // Owns that of `changes`.
    api::EditPoints edit;    // Of body_.
    api::BodyChanges changes;
    UpstreamRequest upstream;
  };

  [[nodiscard]] bool is_large() const { return body_.size() > net::ExchangeHandler::kLargeBytes; }
  [[nodiscard]] std::optional<Refusal> refusal_of(const core::Result<void>& parsed);
  // Runs `first` on the same thread, if there is one.
  void parse_elsewhere(api::Endpoint endpoint, std::function<void()> first, Parsed done);
  // These throw std::bad_alloc if the tenant would hold too much memory. Any thread that has the body to itself may
  // drop the oldest part of the prompt. Returns the number of messages, or nothing if none may be dropped.
  [[nodiscard]] std::optional<std::uint32_t> drop_oldest(api::Endpoint endpoint, const core::PromptExcess& excess);
  void hold_copy();  // Counts a changed copy of the body.
  void run_elsewhere(std::function<void()> work, std::function<void()> done);
  void finish(const std::function<void()>& done);
  void clear(bool keep_memory);

  WorkerContext& context_;
  RequestGuard& guard_;
  std::uint32_t tenant_ = 0;
  net::Body body_;
  std::unique_ptr<Outgoing> out_;  // Set by take_settings().
  net::MemoryHold changed_hold_;   // Counts the changed body in it.
  std::unique_ptr<LargeBody> large_;
  LargeBodies::Ticket ticket_ = 0;                  // Not 0 while another thread works.
  bool is_released_ = false, was_waiting_ = false;  // See release_if_last().
  bool has_failed_ = false;                         // There was no memory for its work.
  std::function<void()> released_;                  // Set while a released request waits for the end of the work.
};

}  // namespace penstock::gateway
