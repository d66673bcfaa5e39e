// A server of raw bytes for tests of the client, and a listener that records its calls.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "net/client.h"
#include "net/tls.h"

namespace penstock::net::testing {

// One accepted connection with blocking calls. It closes at the end of the script.
class Peer {
 public:
  Peer(int descriptor, const std::shared_ptr<TlsContext>& tls) : transport_{std::in_place, descriptor, tls} {
    const int on = 1;
    ::setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  }

  // Returns the next complete request with a Content-Length, or nothing if the client has closed.
  std::optional<std::string> read_request() {
    for (;;) {
      RequestHead head;
      const HeadResult result = parse_request_head(held_, head);
      const auto size = result.bytes + static_cast<std::size_t>(head.content_length.value_or(0));
      if (result.state == HeadState::kComplete && held_.size() >= size) {
        std::string request = held_.substr(0, size);
        held_.erase(0, size);
        return request;
      }
      if (!read_some()) return std::nullopt;
    }
  }
  bool read_some() {
    std::string piece(64 * 1024, '\0');
    const auto got = transport_->read(piece.data(), piece.size());
    held_.append(piece, 0, got.bytes);
    return got.bytes > 0;
  }
  // Returns the bytes that arrive next; empty if the client has closed.
  std::string take() {
    read_some();
    return std::exchange(held_, {});
  }
  void wait_until_closed() {
    while (read_some()) {}
  }
  void send(std::string_view bytes) {
    while (!bytes.empty()) {
      const auto sent = transport_->write(bytes);
      if (sent.closed || sent.failed) return;
      bytes.remove_prefix(sent.bytes);
    }
  }
  // Sends pieces that most likely arrive separately.
  void send_in_pieces(std::string_view bytes, std::size_t size) {
    for (; !bytes.empty(); bytes.remove_prefix(std::min(size, bytes.size()))) {
      send(bytes.substr(0, size));
      std::this_thread::sleep_for(std::chrono::microseconds{300});
    }
  }
  void close() { transport_.reset(); }
  // Closes without a TLS close_notify.
  void cut() { ::shutdown(transport_->descriptor(), SHUT_RDWR); }
  void reset() {
    const linger at_once{1, 0};
    ::setsockopt(transport_->descriptor(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    close();
  }

 private:
  std::optional<Transport> transport_;
  std::string held_;
};

// Runs the script for each connection on a separate thread. Clients must end before the server is destroyed.
class ScriptedServer {
 public:
  using Script = std::function<void(Peer&, int number)>;  // Connections are numbered from 0.

  explicit ScriptedServer(Script script, std::shared_ptr<TlsContext> tls = nullptr)
      : script_{std::move(script)}, tls_{std::move(tls)}, descriptor_{*listen_on(Address{}, false)} {
    ::fcntl(descriptor_, F_SETFL, 0);  // accept() shall block.
    address_ = local_address(descriptor_);
    acceptor_ = std::thread{[this] { accept_all(); }};
  }
  ~ScriptedServer() {
    ::shutdown(descriptor_, SHUT_RDWR);
    acceptor_.join();
    for (auto& thread : connections_) thread.join();
    ::close(descriptor_);
  }
  ScriptedServer(const ScriptedServer&) = delete;
  ScriptedServer& operator=(const ScriptedServer&) = delete;

  [[nodiscard]] const Address& address() const { return address_; }
  [[nodiscard]] int accepted() const { return accepted_; }

 private:
  void accept_all() {
    for (;;) {
      const int connection = ::accept4(descriptor_, nullptr, nullptr, SOCK_CLOEXEC);
      if (connection < 0) return;
      connections_.emplace_back([this, connection, number = accepted_++] {
        Peer peer{connection, tls_};
        script_(peer, number);
      });
    }
  }

  Script script_;
  std::shared_ptr<TlsContext> tls_;
  int descriptor_;
  Address address_;
  std::atomic<int> accepted_{0};
  std::thread acceptor_;
  std::vector<std::thread> connections_;  // Used by the acceptor until it has been joined.
};

// Records its calls and stops the loop at the last one.
class Recorder final : public ResponseListener {
 public:
  explicit Recorder(Loop& loop) : loop_{&loop} {}

  void on_head(const ResponseHead& head) override {
    heads++;
    status = head.status;
    content_type = head.field("content-type");
    if (at_head) at_head();
  }
  void on_body(std::string_view bytes) override {
    pieces++;
    body.append(bytes);
    if (at_body) at_body();
  }
  void on_end() override {
    ends++;
    over();
  }
  void on_fault(ClientFault what, bool has_answer) override {
    faults++;
    fault = what;
    answered = has_answer;
    over();
  }

  std::function<void()> at_head, at_body, at_over;
  int heads = 0, pieces = 0, ends = 0, faults = 0, status = 0;
  std::string body, content_type;
  std::optional<ClientFault> fault;
  bool answered = false;

 private:
  void over() {
    EXPECT_EQ(ends + faults, 1);
    at_over ? at_over() : loop_->stop();
  }
  Loop* loop_;
};

inline constexpr std::string_view kGet = "GET / HTTP/1.1\r\nHost: test\r\n\r\n";
inline constexpr std::string_view kHello = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";

// Runs the loop until it is stopped. A test that hangs fails.
inline void run(Loop& loop) {
  bool too_long = false;
  const auto guard = loop.after(std::chrono::seconds{30}, [&] {
    too_long = true;
    loop.stop();
  });
  loop.run();
  loop.cancel(guard);
  ASSERT_FALSE(too_long) << "nothing happened for 30 s";
}

// Runs the loop for the given time.
inline void run_for(Loop& loop, core::Duration time) {
  loop.after(time, [&] { loop.stop(); });
  loop.run();
}

inline CallOptions to(const Address& address) {
  CallOptions options;
  options.address = address;
  return options;
}

}  // namespace penstock::net::testing
