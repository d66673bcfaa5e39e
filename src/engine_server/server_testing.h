// For tests: an engine server on a thread of its own, and a client of blocking sockets.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <charconv>
#include <future>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "engine/engine_testing.h"
#include "engine_server/engine_server.h"
#include "net/http.h"
#include "net/sse.h"

namespace penstock::engine_server::testing {

// A step takes 1 ms, and a microsecond for each prompt token.
inline ServerOptions quick_options() {
  ServerOptions options;
  options.id = "e1";
  options.session.engine.block_tokens = 16;
  options.session.engine.kv_blocks = 20'000;
  options.session.context_tokens = 200'000;
  options.step_time = std::make_shared<engine::testing::LinearNanoseconds>(
      engine::testing::LinearNanoseconds::Terms{.step = 1'000'000, .prefill_token = 1'000});
  return options;
}

class RunningServer {
 public:
  explicit RunningServer(ServerOptions options = quick_options()) {
    options.session.hold_prefilled = options.role == signals::Role::kPrefill;
    options.session.kv_events = options.kv_events_port.has_value();
    ServerEvents events;
    events.on_ready = [this] { ready_.set_value(); };
    events.on_drained = [this](std::size_t cut) { drained_.set_value(cut); };
    auto started = EngineServer::start(loop_, options, std::move(events));
    EXPECT_TRUE(started.has_value()) << started.error().message();
    server_ = *std::move(started);
    port = server_->address().port();
    thread_ = std::thread{[this] { loop_.run(); }};
  }
  ~RunningServer() {
    loop_.stop();
    thread_.join();
  }
  RunningServer(const RunningServer&) = delete;
  RunningServer& operator=(const RunningServer&) = delete;

  void wait_until_ready() { ready_.get_future().wait(); }
  std::size_t wait_until_drained() { return drained_.get_future().get(); }
  // What the function finds on the server's own thread.
  template <class Look>
  auto on_loop(Look look) {
    std::promise<decltype(look(*server_))> found;
    loop_.post([&] { found.set_value(look(*server_)); });
    return found.get_future().get();
  }
  void drain() {
    on_loop([](EngineServer& server) {
      server.drain();
      return 0;
    });
  }
  engine::EngineState state() {
    return on_loop([](EngineServer& server) { return server.engine_state(); });
  }
  std::size_t open_work() {
    return on_loop([](EngineServer& server) { return server.open_work(); });
  }
  // Returns when the condition holds; a test that waits in vain runs into its time limit.
  template <class Condition>
  void wait_for(Condition holds) {
    while (!holds()) std::this_thread::sleep_for(std::chrono::milliseconds{1});
  }

  std::uint16_t port = 0;

 private:
  net::Loop loop_;
  std::promise<void> ready_;
  std::promise<std::size_t> drained_;
  std::unique_ptr<EngineServer> server_;
  std::thread thread_;
};

struct Answer {
  int status = 0;
  std::string head, body;  // the body without its chunks
  bool whole = false;      // it ended as HTTP says it should

  [[nodiscard]] std::vector<std::string> events() const {
    std::vector<std::string> found;
    net::SseReader reader;
    reader.take(body, [&](std::string_view data) { found.emplace_back(data); });
    return found;
  }
};

class Connection {
 public:
  explicit Connection(std::uint16_t port, int receive_bytes = 0) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    if (receive_bytes > 0) ::setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &receive_bytes, sizeof receive_bytes);
    const timeval limit{60, 0};
    ::setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(port);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    is_open_ = ::connect(socket_, reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0;
  }
  ~Connection() { ::close(socket_); }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  [[nodiscard]] bool is_open() const { return is_open_; }
  void send(std::string_view method, std::string_view path, std::string_view body = {}, std::string_view fields = {}) {
    std::string bytes{method};
    bytes.append(" ").append(path).append(" HTTP/1.1\r\nHost: localhost\r\n").append(fields);
    bytes += "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n";
    bytes.append(body);
    EXPECT_EQ(::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
  }
  // Reads until the bytes so far contain the text. False: the end came first.
  bool read_until(std::string_view text) {
    while (held_.find(text) == std::string::npos)
      if (!read_some()) return false;
    return true;
  }
  bool read_some() {
    char piece[16 * 1024];
    const ssize_t got = ::recv(socket_, piece, sizeof piece, 0);
    if (got <= 0) return false;
    held_.append(piece, static_cast<std::size_t>(got));
    return true;
  }
  // The next whole answer.
  Answer read_answer() {
    Answer answer;
    net::ResponseHead head;
    net::HeadResult parsed;
    while ((parsed = net::parse_response_head(held_, head)).state == net::HeadState::kIncomplete)
      if (!read_some()) return answer;
    if (parsed.state == net::HeadState::kMalformed) return answer;
    answer.status = head.status;
    answer.head = held_.substr(0, parsed.bytes);
    const bool chunked = head.chunked;
    const std::size_t length = head.content_length.value_or(0);
    held_.erase(0, parsed.bytes);
    if (!chunked) {
      while (held_.size() < length)
        if (!read_some()) return answer;
      answer.body = held_.substr(0, length);
      held_.erase(0, length);
      answer.whole = true;
      return answer;
    }
    net::ChunkReader reader;
    for (;;) {
      const net::ChunkReader::Step step = reader.take(held_);
      answer.body += step.payload;
      held_.erase(0, step.consumed);
      answer.whole = step.state == net::ChunkReader::State::kDone;
      if (step.state != net::ChunkReader::State::kMore) return answer;
      if (held_.empty() && !read_some()) return answer;
    }
  }
  [[nodiscard]] const std::string& held() const { return held_; }

 private:
  int socket_;
  bool is_open_ = false;
  std::string held_;
};

inline Answer get(std::uint16_t port, std::string_view path, std::string_view fields = {}) {
  Connection connection{port};
  connection.send("GET", path, {}, fields);
  return connection.read_answer();
}
inline Answer post(std::uint16_t port, std::string_view path, std::string_view body, std::string_view fields = {}) {
  Connection connection{port};
  connection.send("POST", path, body, fields);
  return connection.read_answer();
}
inline constexpr std::string_view kChat = "/v1/chat/completions";

// {"model":…,"messages":[…],"max_tokens":…,"ignore_eos":true, and more}
inline std::string chat_body(std::string_view prompt, std::uint32_t tokens, std::string_view more = {}) {
  std::string body = R"({"model":"penstock-sim","messages":[{"role":"user","content":")";
  body.append(prompt).append(R"("}],"ignore_eos":true,"max_tokens":)").append(std::to_string(tokens));
  if (!more.empty()) body.append(",").append(more);
  return body + "}";
}
inline std::uint64_t metric(std::uint16_t port, std::string_view series) {
  const std::string text = "\n" + get(port, "/metrics").body;
  const std::size_t at = text.find("\n" + std::string{series} + " ");
  EXPECT_NE(at, std::string::npos) << series;
  std::uint64_t value = 0;
  if (at != std::string::npos) std::from_chars(text.data() + at + series.size() + 2, text.data() + text.size(), value);
  return value;
}

}  // namespace penstock::engine_server::testing
