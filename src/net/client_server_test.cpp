// Tests of the client against the server.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "net/client.h"
#include "net/client_testing.h"
#include "net/server.h"
#include "net/server_testing.h"
#include "net/tls_testing.h"

namespace penstock::net {
namespace {

using namespace testing;

constexpr std::size_t kBytes = 1024 * 1024;

// Bytes that identify their position.
std::string pattern() {
  std::string text;
  text.reserve(kBytes + 8);
  for (int i = 0; text.size() < kBytes; ++i) text += std::to_string(i) + ",";
  text.resize(kBytes);
  return text;
}

// Streams a text in small pieces as fast as the client reads.
class Streamer final : public ExchangeListener {
 public:
  Streamer(Exchange& exchange, std::string text) : exchange_{exchange}, text_{std::move(text)} {
    exchange_.listen(this);
    exchange_.start(200, {});
  }
  void on_writable() override {
    while (at_ < text_.size()) {
      const std::string_view piece = std::string_view{text_}.substr(at_, 997);
      at_ += piece.size();
      if (!exchange_.write(piece)) return;
    }
    exchange_.finish();
    delete this;
  }
  void on_client_gone() override { delete this; }

 private:
  Exchange& exchange_;
  std::string text_;
  std::size_t at_ = 0;
};

void echo_or_stream(Exchange& exchange) {
  if (exchange.head().path() == "/echo") return exchange.respond(200, {}, std::string{exchange.body()});
  (new Streamer{exchange, pattern()})->on_writable();
}

class ClientAndServer : public ::testing::TestWithParam<bool> {
 protected:
  [[nodiscard]] CallOptions options() const {
    CallOptions options = to(server_.address());
    if (GetParam()) options.tls = certificate_.client();
    options.host = "localhost";
    return options;
  }

  TestCertificate certificate_;
  TestServer server_{echo_or_stream, {}, GetParam() ? certificate_.server() : nullptr};
  Loop loop_;
  Client client_{loop_};
};
INSTANTIATE_TEST_SUITE_P(Transports, ClientAndServer, ::testing::Bool(),
                         [](const auto& each) { return each.param ? "Tls" : "Plain"; });

TEST_P(ClientAndServer, CarryLargeBodiesBothWays) {
  const std::string body = pattern();
  const std::string head = "POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: " + std::to_string(kBytes) + "\r\n\r\n";
  const CallOptions call = options();
  for (int i = 0; i < 3; ++i) {
    Recorder recorder{loop_};
    client_.call(call, head, body, recorder);
    run(loop_);
    EXPECT_EQ(recorder.status, 200);
    EXPECT_TRUE(recorder.body == body);
    EXPECT_EQ(recorder.ends, 1);
  }
  EXPECT_EQ(server_.counters().accepted, 1U);
}

TEST_P(ClientAndServer, CarryManyStreamsAtOnce) {
  constexpr int kStreams = 20;
  const std::string text = pattern();
  const CallOptions call = options();
  std::vector<std::unique_ptr<Recorder>> recorders;
  int over = 0;
  for (int i = 0; i < kStreams; ++i) {
    recorders.push_back(std::make_unique<Recorder>(loop_));
    recorders.back()->at_over = [&] {
      if (++over == kStreams) loop_.stop();
    };
    client_.call(call, "GET /stream HTTP/1.1\r\nHost: h\r\n\r\n", {}, *recorders.back());
  }
  run(loop_);
  for (const auto& recorder : recorders) {
    EXPECT_EQ(recorder->ends, 1);
    EXPECT_TRUE(recorder->body == text);
  }
  EXPECT_EQ(client_.open_connections(), static_cast<std::uint32_t>(kStreams));
  EXPECT_EQ(server_.counters().malformed, 0U);
}

TEST_P(ClientAndServer, TheServerNoticesACancelledStream) {
  Recorder recorder{loop_};
  Call& call = client_.call(options(), "GET /stream HTTP/1.1\r\nHost: h\r\n\r\n", {}, recorder);
  recorder.at_body = [&] {
    call.cancel();
    loop_.stop();
  };
  run(loop_);
  EXPECT_TRUE(server_.wait_until([](const ServerCounters& counters) { return counters.open == 0; }));
}

TEST_P(ClientAndServer, AServerThatDrainsClosesKeptConnections) {
  Recorder recorder{loop_};
  client_.call(options(), "GET /stream HTTP/1.1\r\nHost: h\r\n\r\n", {}, recorder);
  run(loop_);
  EXPECT_EQ(client_.open_connections(), 1U);
  server_.run([](Server& server) { server.drain(); });
  for (int i = 0; i < 100 && client_.open_connections() > 0; ++i) run_for(loop_, std::chrono::milliseconds{20});
  EXPECT_EQ(client_.open_connections(), 0U);
}

}  // namespace
}  // namespace penstock::net
