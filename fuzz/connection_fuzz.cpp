// A whole connection of a client: bytes in pieces of any size reach a server whose handler answers in several ways. The
// handler sees the same requests however the bytes are cut, each answer is well-formed, and no memory stays held.
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "net/http.h"
#include "net/loop.h"
#include "net/server.h"

namespace {

using namespace penstock::net;

void check(bool holds) {
  if (!holds) std::abort();
}

// Answers by the path: at once, as a stream, or never, until the client has gone.
class Handler final : public ExchangeHandler, private ExchangeListener {
 public:
  std::vector<std::string> requests;

 private:
  void on_request(Exchange& exchange) override {
    const RequestHead& head = exchange.head();
    check(!head.method.empty() && !head.path().empty());
    requests.push_back(std::string{head.method} + ' ' + std::string{head.target} + ' ' + std::string{exchange.body()});
    Body body;
    exchange.take_body(body);
    const std::string_view path = head.path();
    if (path == "/stream") {
      exchange.start(200, {});
      exchange.write("one");
      exchange.write(body.view());
      return exchange.finish();
    }
    if (path == "/raw") {
      exchange.start_raw("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", false);
      exchange.write_raw("3\r\none\r\n0\r\n\r\n");
      return exchange.finish();
    }
    if (path == "/abort") return exchange.abort();
    if (path == "/hold") return exchange.listen(this);
    exchange.respond(200, {}, body.view());
  }
  BodyAdmission admit_body(const RequestHead& head, std::uint64_t bytes) override {
    check(bytes > kAdmittedBytes);
    BodyAdmission admission;
    if (head.path() == "/refuse") admission.refusal_status = 401;
    return admission;
  }
  std::string error_body(int status, std::string_view fault) override {
    check(status >= 400 && !fault.empty());
    return "{}";
  }
  void on_writable() override {}
  void on_client_gone() override {}
};

int listen_locally(sockaddr_un& address, socklen_t& length) {
  const int listening = ::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  address.sun_family = AF_UNIX;
  // An address of the family alone lets the system choose a name that no file has.
  check(::bind(listening, reinterpret_cast<sockaddr*>(&address), sizeof(sa_family_t)) == 0);
  check(::listen(listening, 16) == 0);
  length = sizeof address;
  check(::getsockname(listening, reinterpret_cast<sockaddr*>(&address), &length) == 0);
  return listening;
}

class World {
 public:
  World() {
    limits_.body_bytes = 100'000;
    limits_.head_bytes = 4'000;
    limits_.memory = std::make_shared<MemoryBudget>(150'000, 150'000);
    const int listening = listen_locally(address_, length_);
    server_ = std::make_unique<Server>(loop_, listening, handler_, limits_);
  }

  // Returns the requests that the handler has seen.
  std::vector<std::string> send(std::string_view bytes, std::size_t step, bool half_close) {
    handler_.requests.clear();
    const int client = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    check(::connect(client, reinterpret_cast<const sockaddr*>(&address_), length_) == 0);
    std::string answers;
    turn();
    while (!bytes.empty()) {
      const ssize_t sent = ::send(client, bytes.data(), std::min(step, bytes.size()), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (sent < 0) break;
      bytes.remove_prefix(static_cast<std::size_t>(sent));
      turn();
      read(client, answers);
    }
    if (half_close) ::shutdown(client, SHUT_WR);
    for (int i = 0; i < 4; ++i) {
      turn();
      read(client, answers);
    }
    ::close(client);
    for (int i = 0; i < 10 && server_->counters().open > 0; ++i) turn();
    check(server_->counters().open == 0 && server_->counters().busy == 0);
    check(limits_.memory->held() == 0);
    check_answers(answers);
    return handler_.requests;
  }

 private:
  // Handles what is ready now.
  void turn() {
    for (int i = 0; i < 2; ++i) {
      loop_.after({}, [this] { loop_.stop(); });
      loop_.run();
    }
  }
  static void read(int client, std::string& answers) {
    std::array<char, 65536> piece;
    ssize_t got = 0;
    while ((got = ::recv(client, piece.data(), piece.size(), MSG_DONTWAIT)) > 0)
      answers.append(piece.data(), static_cast<std::size_t>(got));
  }
  // Each answer begins where the one before it ends. The last one may be cut.
  static void check_answers(std::string_view answers) {
    while (!answers.empty()) {
      ResponseHead head;
      const HeadResult result = parse_response_head(answers, head);
      check(result.state != HeadState::kMalformed);
      if (result.state == HeadState::kIncomplete) return;
      answers.remove_prefix(result.bytes);
      if (head.status == 100) continue;
      if (!head.chunked && !head.content_length) return;  // The end of the connection is the end of the answer.
      if (head.content_length) {
        // The answer to HEAD has a length and no body.
        if (!answers.starts_with("HTTP/1.1 "))
          answers.remove_prefix(
              static_cast<std::size_t>(std::min<std::uint64_t>(*head.content_length, answers.size())));
        continue;
      }
      ChunkReader chunks;
      ChunkReader::Step step;
      while (!answers.empty() && step.state == ChunkReader::State::kMore) {
        step = chunks.take(answers);
        check(step.state != ChunkReader::State::kMalformed || answers.starts_with("HTTP/1.1 "));
        if (step.state == ChunkReader::State::kMalformed) break;
        answers.remove_prefix(step.consumed);
      }
    }
  }

  Loop loop_;
  Handler handler_;
  ServerLimits limits_;
  sockaddr_un address_{};
  socklen_t length_ = 0;
  std::unique_ptr<Server> server_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static World world;
  if (size < 2) return 0;
  const std::string_view bytes{reinterpret_cast<const char*>(data) + 2, size - 2};
  // The first byte says in which pieces the rest arrives, and the second how the client ends.
  const std::size_t step = 1 + data[0] * std::size_t{16};
  const bool half_close = (data[1] & 1) != 0;
  const auto whole = world.send(bytes, 60'000, half_close);
  const auto cut = world.send(bytes, step, half_close);
  check(whole == cut);
  return 0;
}
