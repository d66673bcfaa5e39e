// The exchange of a server's connection: the request that the handler has, and the answer to it.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "net/address.h"
#include "net/answer_format.h"
#include "net/server.h"
#include "net/server_request.h"

namespace penstock::net {

class ServerConnection;

// One for each connection, which outlives it; used again for each request.
class ServerExchange final : public Exchange {
 public:
  ServerExchange(ServerConnection& connection, const Address& peer) : connection_{connection}, peer_{peer} {}

  [[nodiscard]] const RequestHead& head() const override { return request_->head; }
  [[nodiscard]] std::string_view body() const override { return request_->body.view(); }
  void take_body(Body& into) override {
    into.clear(Body::kPadding * 128);
    std::swap(into, request_->body);
  }
  void charge_to(MemoryAccount& account) override { request_->payer = &account; }
  [[nodiscard]] std::string_view peer() const override {
    if (peer_text_.empty()) peer_text_ = peer_.text();
    return peer_text_;
  }
  [[nodiscard]] bool client_verified() const override;
  [[nodiscard]] std::string client_name() const override;
  [[nodiscard]] core::Instant received_at() const override { return request_->received_at; }
  void listen(ExchangeListener* listener) override { listener_ = listener; }
  void respond(int status, std::span<const Field> fields, std::string_view body) override;
  void start(int status, std::span<const Field> fields, std::optional<std::uint64_t> content_length) override;
  bool write(std::string_view payload) override;
  bool flush() override;
  void finish() override;
  void start_raw(std::string_view head, bool close_after) override;
  bool write_raw(std::string_view bytes) override;
  void abort() override;

  // For the connection, from the end of a request's head until reset().
  void set_request(std::unique_ptr<Request> request) { request_ = std::move(request); }
  [[nodiscard]] Request* request() { return request_.get(); }
  // The whole request has come, and the handler is next.
  void begin();
  // Forgets the request and the answer, and returns the memory of the request.
  [[nodiscard]] std::unique_ptr<Request> reset();
  [[nodiscard]] AnswerFormat& answer() { return answer_; }
  [[nodiscard]] ExchangeListener* listener() const { return listener_; }
  // Everything has been sent. Calls the listener if a write had returned false.
  void on_all_sent();

 private:
  void assert_not_started() const;
  bool send_body(std::string_view payload);

  ServerConnection& connection_;
  std::unique_ptr<Request> request_;
  ExchangeListener* listener_ = nullptr;
  AnswerFormat answer_;
  bool owes_writable_ = false;
  Address peer_;
  mutable std::string peer_text_;
};

}  // namespace penstock::net
