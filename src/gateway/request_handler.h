// Handles one request in named phases.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "api/answer_collector.h"
#include "api/answer_watch.h"
#include "gateway/answer_end.h"
#include "gateway/answer_relay.h"
#include "gateway/fields.h"
#include "gateway/prompt_fit.h"
#include "gateway/replica_call.h"
#include "gateway/request_body.h"
#include "gateway/request_guard.h"
#include "gateway/request_reading.h"
#include "gateway/request_report.h"
#include "gateway/worker_context.h"
#include "net/client.h"
#include "net/server.h"

namespace penstock::gateway {

// Phases: reading → admitting → (queued →) connecting → awaiting the first byte → relaying → idle; see Phase. Handlers
// are reused and hold no buffers between requests. Each belongs to one thread.
class RequestHandler final : private net::ExchangeListener, private net::ResponseListener {
 public:
  explicit RequestHandler(WorkerContext& context)
      : context_(context),
        report_(context),
        guard_(*this, *this, [this] { out_of_memory(); }),
        body_(context, guard_) {}

  // Runs the following calls.
  [[nodiscard]] RequestGuard& guard() { return guard_; }
  void begin(net::Exchange& exchange, api::Endpoint endpoint);
  // Receives the dispatcher's decision about a queued request, which waits no longer.
  void granted(RoutedGrant grant) { go(std::move(grant)); }
  void refused(const Refusal& refusal);
  // The gateway stops now: ends the request, if there is one, with what was delivered so far.
  void cut();
  // What the open stream has delivered, if it grew since the last call.
  [[nodiscard]] std::optional<dispatch::Progress> progress();
  // If the replica of the request is unresponsive, retries the request elsewhere as long as the client has received
  // nothing, and otherwise ends the answer once no byte has come for gateway.unresponsive_idle_timeout. Called in
  // regular intervals.
  void leave_unresponsive_replica();
  // Frees a body that was sent if the request cannot go to another replica. Called in regular intervals.
  void release_body() { body_.release_if_last(phase_, ticket_, call_); }

 private:
  void on_writable() override;
  void on_client_gone() override;
  void on_head(const net::ResponseHead& head) override;
  void on_body(std::string_view bytes) override;
  void on_end() override;
  void on_fault(net::ClientFault fault, bool answered) override;

  void enter(Phase next) {
    if (context_.logs.log.takes(logging::Event::kRequestPhase)) report_.phase(phase_, next);
    phase_ = next;
  }
  void finish_reading(std::optional<Refusal> refusal, ReadRequest& read);
  [[nodiscard]] std::optional<Refusal> admit(const ReadRequest& read);
  [[nodiscard]] std::optional<Refusal> arrive(const ReadRequest& read);  // Again once its prompt fits.
  [[nodiscard]] ClientRequest client_request() const;
  void go(RoutedGrant grant);
  // Builds the request for the granted replica and sends it.
  void prepare(std::string kv_transfer_params);
  void attempt();
  void reset_answer();
  // Reports the end of the open attempt to the dispatcher, if an attempt is open.
  void end_attempt(dispatch::Attempt attempt, Phase next);
  [[nodiscard]] bool is_events() const { return kind_ == AnswerKind::kEvents; }
  [[nodiscard]] bool can_repeat() const { return !body_.is_released() && context_.front.is_proxy(); }
  bool retry(dispatch::Attempt attempt, std::string_view cause);  // Returns false if there is no other replica.
  void end_prefill();
  void take_head(const net::ResponseHead& head);
  // Keeps bytes that come before the first content of a stream. Returns false if they are to be relayed now.
  [[nodiscard]] bool hold(std::string_view bytes);
  void begin_answer();
  // For an answer that is not streamed and that its time budget may cut; see request_handler_collect.cpp.
  void collect(std::string_view bytes);
  void end_collected();
  void answer_collected(ledger::Outcome outcome);
  // Tries another replica, or ends with 504.
  void time_out(dispatch::Attempt attempt, std::string_view cause);
  // Tries another replica, or ends with 502.
  void fail(std::string_view cause, dispatch::Attempt attempt = dispatch::Attempt::kFaulted);
  void give_up(int status, std::string_view code, std::string message);
  void out_of_time();
  void answer_out_of_time(Phase last, bool within_event);
  void refuse_request(const Refusal& refusal);
  void break_off(std::string_view cause);  // The replica broke off an answer that has begun.
  void truncate();  // Ends an answer that has begun and is not whole, so that the client notices.
  // Reports the outcome to the dispatcher; `attempt` is that of the open attempt, if there is one.
  void end(ledger::Outcome outcome, dispatch::Attempt attempt = dispatch::Attempt::kAbandoned);
  net::Exchange& release();  // The handler becomes free; the exchange sends the rest of the answer.
  void out_of_memory();
  void stop(ledger::Outcome outcome, const Refusal& refusal);  // Refuses the request, or cuts its answer.

  WorkerContext& context_;
  RequestReport report_;
  Phase phase_ = Phase::kIdle;
  net::Exchange* exchange_ = nullptr;
  dispatch::Ticket ticket_ = 0;
  net::Loop::Timer budget_ = 0;
  api::Endpoint endpoint_ = api::Endpoint::kChatCompletions;
  bool stream_ = false;         // The client reads a stream.
  bool shows_routing_ = false;  // The client may see the replica and the reason for its choice.
  bool time_limited_ = false;   // The answer may be cut, so the gateway writes the framing.
  bool attempt_open_ = false;   // The dispatcher does not know how the latest attempt ended.
  bool strips_usage_ = false;   // The client did not request the usage that the engine reports.
  AnswerKind kind_ = AnswerKind::kOther;
  std::uint32_t reported_events_ = 0;  // Events in the latest progress().
  int status_ = 0;                     // Status of the replica's answer.
  std::uint64_t choices_ = 1;          // Choices of a whole answer.
  core::Instant last_token_at_;
  RoutedGrant grant_;
  RequestIds ids_;
  ReplicaCall call_;
  AnswerRelay relay_;
  api::AnswerWatch watch_;
  std::unique_ptr<api::AnswerCollector> collector_;  // Null if the answer is relayed.
  RequestGuard guard_;
  RequestBody body_;  // Freed with the first byte of the answer, or before it if no other replica can take the request.
  PromptFit prompt_fit_{context_, guard_, body_};
};

}  // namespace penstock::gateway
