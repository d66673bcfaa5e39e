// A server on a separate thread and a client of raw bytes, for tests.
#pragma once

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "net/address.h"
#include "net/loop.h"
#include "net/server.h"

namespace penstock::net::testing {

// Passes every request to a function on the server's thread.
class TestServer final : public ExchangeHandler {
 public:
  using Handle = std::function<void(Exchange&)>;

  explicit TestServer(Handle handle, const ServerLimits& limits = {}, std::shared_ptr<TlsContext> tls = nullptr)
      : handle_{std::move(handle)} {
    const auto listening = listen_on(Address{}, false);
    EXPECT_TRUE(listening) << listening.error().message();
    address_ = local_address(*listening);
    server_.emplace(loop_, *listening, *this, limits, std::move(tls));
    thread_ = std::thread{[this] { loop_.run(); }};
  }
  ~TestServer() {
    loop_.stop();
    thread_.join();
  }
  TestServer(const TestServer&) = delete;
  TestServer& operator=(const TestServer&) = delete;

  [[nodiscard]] const Address& address() const { return address_; }
  Loop& loop() { return loop_; }

  // Runs the task on the server's thread and waits for it.
  void run(const std::function<void(Server&)>& task) {
    std::promise<void> done;
    loop_.post([&] {
      task(*server_);
      done.set_value();
    });
    done.get_future().wait();
  }
  ServerCounters counters() {
    ServerCounters counters;
    run([&](Server& server) { counters = server.counters(); });
    return counters;
  }
  // Waits until the predicate holds, at most 10 s.
  template <class Predicate>
  bool wait_until(Predicate&& holds) {
    for (int i = 0; i < 10'000; ++i) {
      if (holds(counters())) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds{1});
    }
    return false;
  }

  // Called for bodies that are admitted. To be set within run().
  std::function<BodyAdmission(const RequestHead&)> admit;

  void on_request(Exchange& exchange) override { handle_(exchange); }
  BodyAdmission admit_body(const RequestHead& head, std::uint64_t) override {
    return admit ? admit(head) : BodyAdmission{};
  }
  std::string error_body(int status, std::string_view fault) override {
    return "{\"status\":" + std::to_string(status) + ",\"fault\":\"" + std::string{fault} + "\"}";
  }

 private:
  Handle handle_;
  Loop loop_;
  Address address_;
  std::optional<Server> server_;
  std::thread thread_;
};

// Blocking client with a timeout, so that a test that hangs fails.
class RawClient {
 public:
  explicit RawClient(const Address& address, int receive_buffer_bytes = 0)
      : descriptor_{socket(static_cast<const sockaddr*>(address.data())->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0)} {
    if (receive_buffer_bytes > 0)
      setsockopt(descriptor_, SOL_SOCKET, SO_RCVBUF, &receive_buffer_bytes, sizeof receive_buffer_bytes);
    const timeval timeout{20, 0};
    setsockopt(descriptor_, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
    setsockopt(descriptor_, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout);
    EXPECT_EQ(::connect(descriptor_, static_cast<const sockaddr*>(address.data()), address.length()), 0);
  }
  ~RawClient() { close(); }
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;

  void close() {
    if (descriptor_ >= 0) ::close(std::exchange(descriptor_, -1));
  }
  void reset() {
    const linger at_once{1, 0};
    setsockopt(descriptor_, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    close();
  }
  void end_output() { shutdown(descriptor_, SHUT_WR); }

  // Returns false if the server accepts no more bytes.
  bool send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(descriptor_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
    return true;
  }
  // Appends one piece to held(). Returns false at the end of the stream, on a reset or on a timeout; see was_reset().
  bool read_some() {
    std::string piece(64 * 1024, '\0');
    const ssize_t got = recv(descriptor_, piece.data(), piece.size(), 0);
    was_reset_ = got < 0 && errno == ECONNRESET;
    was_too_slow_ = got < 0 && errno == EAGAIN;
    EXPECT_FALSE(was_too_slow_) << "nothing came, and no end; so far: " << held_.substr(0, 1000);
    if (got > 0) held_.append(piece, 0, static_cast<std::size_t>(got));
    return got > 0;
  }
  // Returns everything until the server closes.
  std::string read_all() {
    while (read_some()) continue;
    return std::exchange(held_, {});
  }
  // Returns the bytes up to and including `mark`, or everything if the stream ends first.
  std::string read_until(std::string_view mark) {
    std::size_t at = held_.find(mark);
    while (at == std::string::npos && read_some()) at = held_.find(mark);
    std::string found = held_.substr(0, at == std::string::npos ? at : at + mark.size());
    held_.erase(0, found.size());
    return found;
  }
  [[nodiscard]] bool was_reset() const { return was_reset_; }

  struct Answer {
    int status = 0;
    std::string head, body;
    bool whole = false;
  };
  // Reads the next response, framed by length or in chunks.
  Answer read_answer(bool to_head = false) {
    Answer answer;
    answer.head = read_until("\r\n\r\n");
    ResponseHead head;
    if (parse_response_head(answer.head, head).state != HeadState::kComplete) return answer;
    answer.status = head.status;
    if (to_head || head.status == 100 || head.status == 204) {
      answer.whole = true;
    } else if (head.chunked) {
      ChunkReader chunks;
      ChunkReader::Step step;
      while (step.state == ChunkReader::State::kMore && (!held_.empty() || read_some())) {
        step = chunks.take(held_);
        answer.body.append(step.payload);
        held_.erase(0, step.consumed);
      }
      answer.whole = step.state == ChunkReader::State::kDone;
    } else {
      const std::size_t length = head.content_length.value_or(0);
      while (held_.size() < length && read_some()) continue;
      answer.whole = held_.size() >= length;
      answer.body = held_.substr(0, length);
      held_.erase(0, answer.body.size());
    }
    return answer;
  }

 private:
  int descriptor_;
  std::string held_;
  bool was_reset_ = false, was_too_slow_ = false;
};

inline std::string get(std::string_view path, std::string_view more = {}) {
  return "GET " + std::string{path} + " HTTP/1.1\r\nHost: test\r\n" + std::string{more} + "\r\n";
}
inline std::string post(std::string_view path, std::string_view body) {
  return "POST " + std::string{path} + " HTTP/1.1\r\nHost: test\r\nContent-Length: " + std::to_string(body.size()) +
         "\r\n\r\n" + std::string{body};
}

}  // namespace penstock::net::testing
