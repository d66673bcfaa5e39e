// An engine with minimal cost, for measurements of the gateway in front of it. Answers at once: a complete answer of
// about 300 bytes, or with "stream":true the number of tokens in "max_tokens", at a constant rate. Each token contains
// the time at which it was written, so that its reader can measure the added delay.
//
//   mock_replica [--port N] [--rate TOKENS_PER_S]       prints "ready on http://127.0.0.1:PORT"
//   GET /count     requests served so far, those of streams included
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "net/address.h"
#include "net/server.h"
#include "net/signals.h"

namespace {

using namespace penstock;
using net::Exchange;
using net::Field;

constexpr std::string_view kWhole =
    R"({"id":"chatcmpl-0123456789abcdef","object":"chat.completion","created":1700000000,"model":"m",)"
    R"("choices":[{"index":0,"message":{"role":"assistant","content":"The quick brown fox jumps over the lazy dog."},)"
    R"("logprobs":null,"finish_reason":"stop"}],)"
    R"("usage":{"prompt_tokens":250,"completion_tokens":10,"total_tokens":260}})";
constexpr std::string_view kModels =
    R"({"object":"list","data":[{"id":"m","object":"model","created":1700000000,"owned_by":"mock"}]})";
constexpr std::string_view kLast =
    R"(data: {"id":"chatcmpl-0123456789abcdef","object":"chat.completion.chunk","created":1700000000,"model":"m",)"
    "\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"length\"}]}\n\ndata: [DONE]\n\n";

std::uint64_t number_behind(std::string_view text, std::string_view name, std::uint64_t fallback) {
  std::size_t at = text.find(name);
  if (at == std::string_view::npos) return fallback;
  at += name.size();
  std::uint64_t number = fallback;
  std::from_chars(text.data() + at, text.data() + text.size(), number);
  return number;
}

// Both ends of the body without blanks: its fields stand before or behind a prompt that may be long.
std::string fields_of(std::string_view body) {
  constexpr std::size_t kEndBytes = 1024;
  std::string fields{body.substr(0, kEndBytes)};
  if (body.size() > kEndBytes) fields.append(body.substr(std::max(kEndBytes, body.size() - kEndBytes)));
  std::erase(fields, ' ');
  return fields;
}

class Stream final : public net::ExchangeListener {
 public:
  Stream(Exchange& exchange, std::uint64_t tokens) : exchange_(&exchange), left_(tokens) {
    static constexpr std::array<Field, 2> kFields = {Field{"Content-Type", "text/event-stream"},
                                                     Field{"Cache-Control", "no-cache"}};
    exchange.listen(this);
    exchange.start(200, kFields);
  }

  // False: it has ended.
  bool write_token(std::string& event) {
    if (exchange_ == nullptr) return false;
    event.clear();
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    fmt::format_to(std::back_inserter(event),
                   R"(data: {{"id":"chatcmpl-0123456789abcdef","object":"chat.completion.chunk","created":1700000000,)"
                   R"("model":"m","choices":[{{"index":0,"delta":{{"content":" t{}"}},"finish_reason":null}}]}})"
                   "\n\n",
                   std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
    if (--left_ > 0) {
      exchange_->write(event);
      return true;
    }
    event.append(kLast);
    exchange_->write(event);
    exchange_->finish();
    return false;
  }

 private:
  void on_writable() override {}
  void on_client_gone() override { exchange_ = nullptr; }

  Exchange* exchange_;
  std::uint64_t left_;
};

class Replica final : public net::ExchangeHandler {
 public:
  // A stream has its turn in one of many ticks, so that tokens are spread over time as the requests were.
  Replica(net::Loop& loop, double tokens_per_s) : turns_(static_cast<std::size_t>(1000.0 / tokens_per_s)) {
    loop.every(kTurn, [this] {
      // On a busy machine a timer skips rounds; tokens are not skipped.
      for (const core::Instant now = net::Loop::read_clock(); next_turn_ <= now; next_turn_ += kTurn) tick();
    });
  }

  void on_request(Exchange& exchange) override {
    static constexpr std::array<Field, 1> kJson = {Field{"Content-Type", "application/json"}};
    static constexpr std::array<Field, 1> kText = {Field{"Content-Type", "text/plain"}};
    const std::string_view path = exchange.head().path();
    // Nothing below it: what asks for more than an engine need have shall not be measured waiting for it.
    if (exchange.head().method == "POST" && path == "/v1/chat/completions") return answer(exchange);
    if (path == "/v1/models") return exchange.respond(200, kJson, kModels);
    if (path == "/count") return exchange.respond(200, kText, fmt::format("{}\n", served_));
    exchange.respond(path == "/health" || path == "/metrics" ? 200 : 404, kText, {});
  }
  std::string error_body(int, std::string_view) override { return "{}"; }

 private:
  void answer(Exchange& exchange) {
    ++served_;
    const std::string fields = fields_of(exchange.body());
    if (fields.find(R"("stream":true)") == std::string::npos) {
      static constexpr std::array<Field, 1> kJson = {Field{"Content-Type", "application/json"}};
      return exchange.respond(200, kJson, kWhole);
    }
    // Routers that write the body anew may call it so.
    const std::uint64_t tokens = number_behind(fields, R"("max_completion_tokens":)", 20);
    auto stream = std::make_unique<Stream>(
        exchange, std::max<std::uint64_t>(1, number_behind(fields, R"("max_tokens":)", tokens)));
    if (stream->write_token(event_)) turns_[turn_].push_back(std::move(stream));
  }

  void tick() {
    turn_ = (turn_ + 1) % turns_.size();
    std::erase_if(turns_[turn_], [&](const auto& stream) { return !stream->write_token(event_); });
  }

  static constexpr core::Duration kTurn = std::chrono::milliseconds{1};

  std::vector<std::vector<std::unique_ptr<Stream>>> turns_;
  core::Instant next_turn_ = net::Loop::read_clock();
  std::size_t turn_ = 0;
  std::uint64_t served_ = 0;
  std::string event_;
};

}  // namespace

int main(int count, char** words) {
  std::uint16_t port = 0;
  double tokens_per_s = 20.0;
  for (int i = 1; i + 1 < count; i += 2) {
    const std::string_view flag = words[i], value = words[i + 1];
    const char* const end = value.data() + value.size();
    const bool read = flag == "--port"
                          ? std::from_chars(value.data(), end, port).ptr == end
                          : flag == "--rate" && std::from_chars(value.data(), end, tokens_per_s).ptr == end;
    if (!read || tokens_per_s < 1.0 || tokens_per_s > 1000.0) {
      std::fprintf(stderr, "mock_replica: cannot read %s %s\n", words[i], words[i + 1]);
      return 2;
    }
  }
  net::Loop loop;
  const net::SignalWatch signals{loop, {SIGTERM, SIGINT}, [&](int) { loop.stop(); }};
  const auto address = net::Address::parse("127.0.0.1", port);
  const auto listening = net::listen_on(*address, false);
  if (!listening) {
    std::fprintf(stderr, "mock_replica: %s\n", listening.error().message().c_str());
    return 1;
  }
  Replica replica{loop, tokens_per_s};
  net::Server server{loop, *listening, replica};
  fmt::print("ready on http://{}\n", net::local_address(*listening).text());
  std::fflush(stdout);
  loop.run();
  return 0;
}
