// One call of Envoy: messages in any order and of any content reach an exchange whose handler answers in several ways.
// The handler hears of each request once and of its end once, and nothing is sent after the end of the call.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>

#include "connect/envoy/ext_proc_messages.h"
#include "gateway/envoy_exchange.h"

namespace {

using namespace penstock;

void check(bool holds) {
  if (!holds) std::abort();
}

class Bytes {
 public:
  Bytes(const std::uint8_t* data, std::size_t size) : data_{data}, size_{size} {}
  bool empty() const { return size_ == 0; }
  std::uint8_t next() {
    if (size_ == 0) return 0;
    --size_;
    return *data_++;
  }

 private:
  const std::uint8_t* data_;
  std::size_t size_;
};

class Call final : public net::GrpcCall {
 public:
  std::string_view path() const override { return connect::kExtProcMethod; }
  void send(std::string_view message) override {
    check(!is_finished && !message.empty());
    ++sent;
  }
  std::size_t unsent() const override { return 0; }
  void finish(net::GrpcStatus, std::string_view) override {
    check(!is_finished);
    is_finished = true;
  }
  bool is_finished = false;
  int sent = 0;
};

// Acts as the next byte says; what an action needs is there, as with the gateway's handler.
class Handler final : public net::ExchangeHandler, public net::ExchangeListener, public net::ResponseListener {
 public:
  explicit Handler(Bytes& bytes) : bytes_{bytes} {}

  void on_request(net::Exchange& exchange) override {
    check(exchange_ == nullptr && !had_request_);
    had_request_ = true;
    exchange_ = static_cast<gateway::EnvoyExchange*>(&exchange);
    exchange_->listen(this);
    exchange_->take_body(body_);
    act();
  }
  std::string error_body(int status, std::string_view) override { return std::to_string(status); }
  void on_writable() override { check(false); }
  void on_client_gone() override {
    check(exchange_ != nullptr);
    exchange_ = nullptr;
  }
  void on_head(const net::ResponseHead& head) override {
    check(exchange_ != nullptr && is_picked_ && !has_head_);
    has_head_ = true;
    head_ = &head;
    act();
  }
  void on_body(std::string_view bytes) override {
    check(exchange_ != nullptr && has_head_ && !bytes.empty());
    act(bytes);
  }
  void on_end() override {
    check(exchange_ != nullptr && has_head_);
    end();
  }
  void on_fault(net::ClientFault, bool) override {
    check(exchange_ != nullptr && is_picked_);
    end();
  }
  // An answer to a request must follow sooner or later.
  void act(std::string_view bytes = {}) {
    if (exchange_ == nullptr) return;
    switch (bytes_.next() % 8) {
      case 0: return respond();
      case 1: return is_started_ ? abort() : pick();
      case 2: return pick();
      case 3: return is_started_ ? finish() : start();
      case 7: return;  // Waits, or keeps the bytes.
      default:
        if (!is_picked_) return pick();
        if (has_head_ && !is_started_) start();
        if (is_started_) exchange_->write(bytes);
    }
  }
  bool is_open() const { return exchange_ != nullptr; }
  bool is_started() const { return is_started_; }

 private:
  void pick() {
    if (is_picked_) return;
    is_picked_ = true;
    gateway::Target target;
    net::CallOptions options;
    exchange_->send(target, options, "POST /v1 HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\n", body_.view(), *this);
  }
  void start() {
    if (!has_head_ || is_started_) return;
    is_started_ = true;
    exchange_->start(head_->status, head_->fields, head_->content_length);
  }
  void respond() {
    const net::Field field{"content-type", "application/json"};
    std::exchange(exchange_, nullptr)->respond(500, {&field, 1}, "{}");
  }
  void finish() { std::exchange(exchange_, nullptr)->finish(); }
  void abort() { std::exchange(exchange_, nullptr)->abort(); }
  void end() { is_started_ ? finish() : respond(); }

  Bytes& bytes_;
  gateway::EnvoyExchange* exchange_ = nullptr;
  net::Body body_;
  const net::ResponseHead* head_ = nullptr;
  bool had_request_ = false, is_picked_ = false, has_head_ = false, is_started_ = false;
};

connect::ProcessingRequest message_of(Bytes& bytes, std::string& body) {
  using connect::BodySendMode;
  connect::ProcessingRequest message;
  message.part = static_cast<connect::ExtProcPart>(bytes.next() % 6);
  const std::uint8_t flags = bytes.next();
  message.end_of_stream = (flags & 1U) != 0;
  body.assign((flags >> 1U) % 8 * 20, 'x');
  if ((flags & 0x80U) != 0) body = "upstream connect error";
  const bool has_body =
      message.part == connect::ExtProcPart::kRequestBody || message.part == connect::ExtProcPart::kResponseBody;
  if (has_body) {
    message.body = body;
    return message;
  }
  const std::uint8_t kind = bytes.next();
  if (message.part == connect::ExtProcPart::kRequestHeaders) {
    message.headers = {{":method", "POST"}, {":path", "/v1"}, {"authorization", "Bearer a"}};
    if ((kind & 1U) != 0) message.headers.push_back({"content-length", "12345678901234567890123"});
    if ((kind & 2U) != 0) message.headers.push_back({"content-length", "60"});
    const bool is_usual = (kind & 0x80U) == 0;
    message.request_body_mode = is_usual ? BodySendMode::kFullDuplexStreamed : static_cast<BodySendMode>(kind % 6);
    message.response_body_mode =
        is_usual ? BodySendMode::kFullDuplexStreamed : static_cast<BodySendMode>((kind >> 3U) % 6);
  } else {
    message.headers = {{":status", (kind & 1U) != 0 ? "503" : "200"}, {"set-cookie", "a"}};
    if ((kind & 2U) != 0) message.headers.push_back({"content-type", "text/plain"});
  }
  return message;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Bytes bytes{data, size};
  Handler handler{bytes};
  Call call;
  net::ServerLimits limits;
  limits.memory = std::make_shared<net::MemoryBudget>(1 << 16, 1 << 16);
  limits.body_bytes = 300;
  gateway::EnvoyContext context{handler, limits, {}, true, {}, false, {}};
  {
    gateway::EnvoyExchange exchange{context, call, core::Instant{}};
    std::string body;
    while (!bytes.empty() && !exchange.is_over()) {
      context.leaves = bytes.next() % 16 == 0;
      if (bytes.next() % 8 == 0) {
        handler.act();  // Between two messages.
      } else {
        exchange.take(message_of(bytes, body));
      }
      check(exchange.is_over() == call.is_finished);
    }
    if (!exchange.is_over()) exchange.gone();
    check(!handler.is_open());
  }
  check(context.counters.busy == 0 && context.ended.size() == 1);
  return 0;
}
