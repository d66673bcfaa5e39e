#include "connect/nats/client.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace penstock::connect {
namespace {

using namespace std::chrono_literals;

constexpr std::string_view kInfo = "INFO {\"server_id\":\"N\",\"auth_required\":false}\r\n";

// Answers each connection by a script, on a thread of its own.
class ScriptedServer {
 public:
  using Script = std::function<void(ScriptedServer&, int connection)>;

  explicit ScriptedServer(Script script)
      : listening_(*net::listen_on(net::Address{}, false)), thread_([this, script = std::move(script)] {
          for (int number = 0; !stopping_; ++number) {
            descriptor_ = accept();
            if (descriptor_ < 0) return;
            received_.clear();
            script(*this, number);
            ::close(descriptor_);
          }
        }) {}
  ~ScriptedServer() {
    stopping_ = true;
    thread_.join();
    ::close(listening_);
  }
  ScriptedServer(const ScriptedServer&) = delete;
  ScriptedServer& operator=(const ScriptedServer&) = delete;

  [[nodiscard]] NatsEndpoint endpoint() const { return {"127.0.0.1", net::local_address(listening_).port(), {}}; }

  void send(std::string_view bytes) const {
    [[maybe_unused]] const ssize_t sent = ::send(descriptor_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }
  // Reads until the text was received. False: the client closed the connection, or the test ends.
  bool read_until(std::string_view text) {
    while (received_.find(text) == std::string::npos) {
      char bytes[1024];
      const ssize_t count = ::recv(descriptor_, bytes, sizeof bytes, MSG_DONTWAIT);
      if (count == 0 || stopping_) return false;
      if (count > 0)
        received_.append(bytes, static_cast<std::size_t>(count));
      else
        std::this_thread::sleep_for(1ms);
    }
    return true;
  }
  // The usual beginning, up to the first PONG.
  bool greet() {
    send(kInfo);
    if (!read_until("PING\r\n")) return false;
    send("PONG\r\n");
    return true;
  }
  void wait_for_end() { static_cast<void>(read_until("no client sends this")); }
  [[nodiscard]] const std::string& received() const { return received_; }

 private:
  int accept() const {
    while (!stopping_) {
      const int accepted = ::accept4(listening_, nullptr, nullptr, SOCK_CLOEXEC);
      if (accepted >= 0) return accepted;
      std::this_thread::sleep_for(1ms);
    }
    return -1;
  }

  int listening_;
  int descriptor_ = -1;
  std::string received_;
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

class NatsClientTest : public testing::Test {
 protected:
  NatsClientTest() {
    options.backoff = 5ms;
    options.backoff_max = 20ms;
  }
  void open(const NatsEndpoint& endpoint) {
    client = std::make_unique<NatsClient>(
        loop, endpoint,
        NatsClient::Listener{[this](const std::string& subject, std::string_view payload) {
                               messages.push_back(subject + ": " + std::string{payload});
                             },
                             [this](const std::string& cause) { reports.push_back(cause); }},
        options);
  }
  void run_until(const std::function<bool()>& condition) {
    const auto timeout = loop.after(30s, [&] { loop.stop(); });
    const auto poll = loop.every(1ms, [&] {
      if (condition()) loop.stop();
    });
    loop.run();
    loop.cancel(timeout);
    loop.cancel(poll);
    EXPECT_TRUE(condition());
  }

  net::Loop loop;
  NatsOptions options;
  std::vector<std::string> messages, reports;
  std::unique_ptr<NatsClient> client;  // It is destroyed before the loop.
};

TEST_F(NatsClientTest, SubscribesAndReceives) {
  ScriptedServer server{[](ScriptedServer& to, int) {
    if (!to.greet()) return;
    EXPECT_TRUE(to.received().starts_with("CONNECT {")) << to.received();
    EXPECT_NE(to.received().find("SUB a.> 2\r\nSUB a.b 1\r\nPING\r\n"), std::string::npos) << to.received();
    to.send("MSG a.b 1 2\r\nhi\r\nMSG a.c 2 2\r\nho\r\nMSG x 9 2\r\nno\r\nPING\r\n");
    to.wait_for_end();
  }};
  open(server.endpoint());
  ASSERT_TRUE(client->subscribe("a.b") && client->subscribe("a.>") && client->subscribe("a.b"));
  EXPECT_FALSE(client->subscribe("a b"));
  run_until([&] { return messages.size() == 2; });
  EXPECT_EQ(messages, (std::vector<std::string>{"a.b: hi", "a.>: ho"}));
  EXPECT_EQ(reports, std::vector<std::string>{""});
  EXPECT_TRUE(client->is_connected());
}

TEST_F(NatsClientTest, AnswersPingsAndTellsLaterSubscriptions) {
  std::atomic<bool> answered = false;
  ScriptedServer server{[&](ScriptedServer& to, int) {
    if (!to.greet()) return;
    to.send("PING\r\n");
    answered = to.read_until("PONG\r\n") && to.read_until("SUB later 1\r\n") && to.read_until("UNSUB 1\r\n");
    to.wait_for_end();
  }};
  open(server.endpoint());
  run_until([&] { return client->is_connected(); });
  ASSERT_TRUE(client->subscribe("later"));
  client->unsubscribe("later");
  EXPECT_EQ(client->subjects(), 0U);
  run_until([&] { return answered.load(); });
}

TEST_F(NatsClientTest, SubscribesAgainAfterTheConnectionEnded) {
  ScriptedServer server{[](ScriptedServer& to, int number) {
    if (!to.greet()) return;
    to.send("MSG a.b 1 1\r\n" + std::to_string(number) + "\r\n");
    if (number == 2) to.wait_for_end();
  }};
  open(server.endpoint());
  ASSERT_TRUE(client->subscribe("a.b"));
  run_until([&] { return messages.size() == 3; });
  EXPECT_EQ(messages, (std::vector<std::string>{"a.b: 0", "a.b: 1", "a.b: 2"}));
  ASSERT_EQ(reports.size(), 5U);
  EXPECT_EQ(reports[1], "the server closed the connection");
  EXPECT_EQ(reports[4], "");
}

TEST_F(NatsClientTest, ReportsEachCauseOnceAndGoesOn) {
  const std::pair<const char*, const char*> table[] = {
      {"INFO {\"tls_required\":true}\r\n", "requires TLS"},
      {"INFO {\"auth_required\":true}\r\n", "requires authentication"},
      {"INFO [1]\r\n", "not a JSON object"},
      {"-ERR 'maximum connections exceeded'\r\n", "maximum connections exceeded"},
      {"SSH-2.0-OpenSSH\r\n", "not of its protocol"},
  };
  for (const auto& [greeting, cause] : table) {
    SCOPED_TRACE(greeting);
    reports.clear();
    std::atomic<int> connections = 0;
    ScriptedServer server{[&, text = greeting](ScriptedServer& to, int) {
      ++connections;
      to.send(text);
      to.wait_for_end();
    }};
    open(server.endpoint());
    run_until([&] { return connections >= 3; });
    ASSERT_EQ(reports.size(), 1U);
    EXPECT_NE(reports[0].find(cause), std::string::npos) << reports[0];
    client.reset();
  }
}

TEST_F(NatsClientTest, LeavesAServerThatIsSilent) {
  options.connect_time = 20ms;
  ScriptedServer server{[](ScriptedServer& to, int number) {
    if (number == 0) return to.wait_for_end();  // Never greets.
    if (!to.greet()) return;
    to.wait_for_end();
  }};
  open(server.endpoint());
  run_until([&] { return client->is_connected(); });
  EXPECT_EQ(reports, (std::vector<std::string>{"the server does not answer in time", ""}));
}

TEST_F(NatsClientTest, LeavesAServerThatAnswersNoPing) {
  options.ping_interval = 10ms;
  std::atomic<int> connections = 0;
  ScriptedServer server{[&](ScriptedServer& to, int) {
    ++connections;
    if (to.greet()) to.wait_for_end();
  }};
  open(server.endpoint());
  run_until([&] { return connections >= 2; });
  ASSERT_GE(reports.size(), 2U);
  EXPECT_EQ(reports[1], "the server does not answer");
}

TEST_F(NatsClientTest, ResolvesANameAgainAfterAFailure) {
  ScriptedServer server{[](ScriptedServer& to, int) {
    if (to.greet()) to.wait_for_end();
  }};
  std::atomic<int> lookups = 0;
  options.resolve = [&](const std::string& host, std::uint16_t port) -> net::Resolver::Addresses {
    if (++lookups == 1) return core::environment_error(host, "the name has no address");
    return std::vector{*net::Address::parse("127.0.0.1", port)};
  };
  open({"nats.example", server.endpoint().port, {}});
  run_until([&] { return client->is_connected(); });
  EXPECT_EQ(lookups, 2);
  ASSERT_EQ(reports.size(), 2U);
  EXPECT_NE(reports[0].find("has no address"), std::string::npos) << reports[0];
}

}  // namespace
}  // namespace penstock::connect
