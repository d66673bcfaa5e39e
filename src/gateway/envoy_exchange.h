// One request of a client of Envoy: the client's side as an exchange, the replica's side as a call.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "connect/envoy/ext_proc_messages.h"
#include "gateway/front.h"
#include "net/grpc_server.h"
#include "net/server.h"
#include "net/server_request.h"

namespace penstock::gateway {

// What the exchanges of one front share.
struct EnvoyContext {
  net::ExchangeHandler& handler;
  net::ServerLimits limits;  // With a memory budget.
  net::ServerCounters counters;
  bool keys_are_ours = false;               // Clients have keys of the gateway, which engines must not see.
  std::vector<std::string> forwarded;       // Names of header fields that pass although they control engines.
  bool leaves = false;                      // See Front::leave().
  std::vector<const net::GrpcCall*> ended;  // Their exchanges are over and wait to be destroyed.
};

// A call of Envoy's external processing service. The request comes in messages, and the answers to them send it to the
// granted replica; the replica's answer comes in messages, too. Without a replica, Envoy answers the client as told.
class EnvoyExchange final : public net::Exchange, private net::Call {
 public:
  EnvoyExchange(EnvoyContext& context, net::GrpcCall& call, core::Instant received_at);
  ~EnvoyExchange();

  void take(const connect::ProcessingRequest& message);
  void gone();  // Envoy has ended the call: the client has left, or its answer is complete.
  [[nodiscard]] bool is_over() const { return is_over_; }  // The call is finished.
  // Ends a call that was aborted while the gateway leaves. Until then its next piece is passed on.
  void let_go();

  // See Front::call(). At most once.
  net::Call& send(const Target& target, const net::CallOptions& options, std::string_view head, std::string_view body,
                  net::ResponseListener& listener);

  // net::Exchange
  [[nodiscard]] const net::RequestHead& head() const override { return request_.head; }
  [[nodiscard]] std::string_view body() const override { return request_.body.view(); }
  void take_body(net::Body& into) override;
  void charge_to(net::MemoryAccount&) override {}  // Output is bounded by the flow control of the call.
  [[nodiscard]] std::string_view peer() const override { return request_.head.field("x-forwarded-for"); }
  [[nodiscard]] bool client_verified() const override { return false; }
  [[nodiscard]] std::string client_name() const override { return {}; }
  [[nodiscard]] core::Instant received_at() const override { return request_.received_at; }
  void listen(net::ExchangeListener* listener) override { client_ = listener; }
  void respond(int status, std::span<const net::Field> fields, std::string_view body) override;
  void start(int status, std::span<const net::Field> fields, std::optional<std::uint64_t> content_length) override;
  bool write(std::string_view payload) override;
  bool flush() override { return true; }
  void finish() override;
  void start_raw(std::string_view, bool) override;
  bool write_raw(std::string_view) override;
  void abort() override;

 private:
  // net::Call
  void cancel() override { replica_ = nullptr; }
  void begun() override {}
  bool release_request() override { return true; }  // It was copied.
  void take_rest(const std::function<void(std::string_view)>&, std::size_t) override {}
  void pause() override {}  // See charge_to().
  void resume() override {}

  using Mode = connect::BodySendMode;
  void take_request_headers(const connect::ProcessingRequest& message);
  void take_request_body(const connect::ProcessingRequest& message);
  void request_complete();
  void take_response_headers(const connect::ProcessingRequest& message);
  void take_response_body(const connect::ProcessingRequest& message);
  void answered_by_envoy(const connect::ProcessingRequest& message);
  void pass_on_head();
  void end_of_answer();
  void fault(net::ClientFault fault);
  [[nodiscard]] bool admit(std::uint64_t bytes);
  void refuse(int status, std::string_view fault);
  [[nodiscard]] connect::HeaderMutation request_mutation(const std::vector<net::Field>& wanted,
                                                         const std::string& length) const;
  void send_pieces(connect::ExtProcPart part, std::string_view body, bool ends);
  void answer_response_headers();
  void send_output();
  void begin_leaving();
  void pass_on(const connect::ProcessingRequest& message);
  void over();

  EnvoyContext& context_;
  net::GrpcCall& call_;
  net::Request request_;
  Mode request_mode_ = Mode::kFullDuplexStreamed, response_mode_ = Mode::kFullDuplexStreamed;
  bool has_request_ = false;           // All of it has come.
  bool has_request_trailers_ = false;  // Behind it.
  bool is_picked_ = false;
  bool is_leaving_ = false;  // The handler has left it.
  bool is_over_ = false;
  net::ExchangeListener* client_ = nullptr;
  net::ResponseListener* replica_ = nullptr;

  // The answer.
  net::ResponseHead answer_;  // Its views point into answer_bytes_.
  std::string answer_bytes_;
  bool has_answer_ = false;    // Its headers have come.
  bool is_head_held_ = false;  // It may be Envoy's own answer; the body will tell.
  bool is_answered_ = false;   // Envoy has an answer to the headers.
  bool has_body_ = true;       // A body follows the headers.
  bool has_trailers_ = false;
  bool has_ended_ = false;                         // All of it has come.
  bool in_message_ = false;                        // One is taken, whose answer follows.
  bool is_started_ = false, is_finished_ = false;  // By the handler.
  std::string mutation_bytes_;                     // What these refer to.
  std::string answer_message_;                     // The answer to the headers, until it is sent.
  std::string out_;                                // What the handler has written and Envoy has not got.
};

}  // namespace penstock::gateway
