// Handles one request in named phases.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <string_view>

#include "api/answer_collector.h"
#include "api/answer_watch.h"
#include "gateway/answer_relay.h"
#include "gateway/replica_call.h"
#include "gateway/request_reading.h"
#include "gateway/request_report.h"
#include "gateway/upstream_request.h"
#include "gateway/worker_context.h"
#include "net/client.h"
#include "net/server.h"

namespace penstock::gateway {

// Phases: reading → admitting → (queued →) connecting → awaiting the first byte → relaying → idle; see Phase. Handlers
// are reused and hold no buffers between requests. Each belongs to one thread.
class RequestHandler final : private net::ExchangeListener, private net::ResponseListener {
 public:
  explicit RequestHandler(WorkerContext& context) : context_(context), report_(context), guard_(*this) {}

  void begin(net::Exchange& exchange, api::Endpoint endpoint) {
    guard_.run([&] { read(exchange, endpoint); });
  }
  // Receives the dispatcher's decision about a queued request.
  void granted(RoutedGrant grant) {
    guard_.run([&] { leave_queue(std::move(grant)); });
  }
  void refused(const Refusal& refusal) {
    guard_.run([&] { leave_queue(refusal); });
  }
  // The gateway stops now: ends the request, if there is one, with what was delivered so far.
  void cut();

 private:
  // Passes events on. A failed allocation ends the request, and the thread goes on.
  class Guard final : public net::ExchangeListener, public net::ResponseListener {
   public:
    explicit Guard(RequestHandler& handler) : handler_(handler) {}
    template <class Task>
    void run(Task&& task) {
      try {
        task();
      } catch (const std::bad_alloc&) {
        handler_.out_of_memory();
      }
    }

   private:
    void on_writable() override {
      run([this] { handler_.on_writable(); });
    }
    void on_client_gone() override {
      run([this] { handler_.on_client_gone(); });
    }
    void on_head(const net::ResponseHead& head) override {
      run([&] { handler_.on_head(head); });
    }
    void on_body(std::string_view bytes) override {
      run([&] { handler_.on_body(bytes); });
    }
    void on_end() override {
      run([this] { handler_.on_end(); });
    }
    void on_fault(net::ClientFault fault, bool answered) override {
      run([&] { handler_.on_fault(fault, answered); });
    }

    RequestHandler& handler_;
  };
  // What another thread reads of a body.
  struct LargeBody {
    ReadRequest read;
    api::InferenceRequest request;  // Without the text of the prompt.
    std::vector<std::uint64_t> keys;
    std::size_t text_bytes = 0;
    net::MemoryHold hold;
    core::Result<void> parsed;
  };

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
  void read(net::Exchange& exchange, api::Endpoint endpoint);
  void finish_reading(const core::Result<void>& parsed, std::size_t text_bytes, ReadRequest& read);
  [[nodiscard]] std::optional<Refusal> admit(const ReadRequest& read);
  void take_settings(const ReadRequest& read);
  void leave_queue(RoutedGrant grant);
  void leave_queue(const Refusal& refusal);
  [[nodiscard]] ClientRequest client_request() const;
  void go(RoutedGrant grant);
  // Builds the request for the granted replica and sends it.
  void prepare(std::string kv_transfer_params);
  void attempt();
  void reset_answer();
  // Reports the end of the open attempt to the dispatcher, if an attempt is open.
  void end_attempt(dispatch::Attempt attempt, Phase next);
  // How the answer of the replica ended, if its framing is whole.
  struct AnswerEnd {
    ledger::Outcome outcome = ledger::Outcome::kCompleted;
    dispatch::Attempt attempt = dispatch::Attempt::kAnswered;
    std::string_view cause{};
  };
  [[nodiscard]] AnswerEnd answer_end() const;
  // A client that reads the stream knows that nothing follows.
  [[nodiscard]] bool has_end() const { return watch_.whole() || watch_.error_status() != 0; }
  bool retry(dispatch::Attempt attempt, std::string_view cause);  // Returns false if there is no other replica.
  void end_prefill();
  void take_head(const net::ResponseHead& head);
  void begin_answer();
  // For an answer that is not streamed and that its time budget may cut; see request_handler_collect.cpp.
  void collect(std::string_view bytes);
  void end_collected();
  void answer_collected(ledger::Outcome outcome);
  void fail(std::string_view cause);  // Tries another replica, or ends with 502.
  void give_up(int status, std::string_view code, std::string message);
  void out_of_time();
  void answer_out_of_time(Phase last, bool within_event);
  void refuse_request(const Refusal& refusal);
  void relay(std::string_view bytes);
  void truncate();  // Ends an answer that has begun and is not whole, so that the client notices.
  // Reports the outcome to the dispatcher; `attempt` is that of the open attempt, if there is one.
  void end(ledger::Outcome outcome, dispatch::Attempt attempt = dispatch::Attempt::kAbandoned);
  net::Exchange& release();  // The handler becomes free; the exchange sends the rest of the answer.
  void recycle();

  // For large bodies; see request_handler_large.cpp.
  void read_elsewhere(const ReadRequest& read);
  // Runs `work` on a thread of LargeBodies and then `next` on this thread. The work has body_ and upstream_ to itself,
  // and the handler is not used again before the work has ended, even if the request ends.
  void run_elsewhere(std::function<void()> work, std::function<void()> next);
  void finish_elsewhere(const std::function<void()>& next);
  void out_of_memory();

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
  bool is_events_ = false;      // The replica answers with a stream of events …
  bool is_json_ = false;        // … or with one document.
  bool at_event_end_ = false;   // The client received whole events, and another one can follow.
  int status_ = 0;              // Status of the replica's answer.
  core::Instant last_token_at_;
  RoutedGrant grant_;
  std::string request_id_;
  std::string engine_request_id_;  // Empty: the same.
  std::string cache_salt_;         // Owns that of changes_.
  api::EditPoints edit_;           // Of body_.
  api::BodyChanges changes_;
  net::Body body_;  // The client's body; freed with the first byte of the answer.
  UpstreamRequest upstream_;
  net::MemoryHold changed_hold_;  // Counts the changed body in upstream_.
  std::uint32_t tenant_ = 0;
  LargeBodies::Ticket elsewhere_ = 0;  // Not 0 while LargeBodies works for this handler.
  bool elsewhere_failed_ = false;      // There was no memory for the work.
  std::unique_ptr<LargeBody> large_;
  ReplicaCall call_;
  AnswerRelay relay_;
  api::AnswerWatch watch_;
  std::unique_ptr<api::AnswerCollector> collector_;  // Null if the answer is relayed.
  Guard guard_;
};

// Sends {"error":…} as the complete answer, with Retry-After and x-request-id.
void refuse(net::Exchange& exchange, const Refusal& refusal, std::string_view request_id);

}  // namespace penstock::gateway
