#include "connect/nats/client.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <future>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "connect/nats/client_testing.h"
#include "net/address.h"

namespace penstock::connect {
namespace {

using namespace std::chrono_literals;
using testing::NatsClientTest, testing::NatsServer, testing::publish;

TEST_F(NatsClientTest, SubscribesAndReceives) {
  const NatsServer server;
  open(server.endpoint());
  ASSERT_TRUE(client->subscribe("a.b") && client->subscribe("c.>") && client->subscribe("a.b"));
  EXPECT_FALSE(client->subscribe("a b"));
  EXPECT_EQ(client->subjects(), 2U);
  run_until([&] { return client->is_connected(); });
  publish(server, "a.b", "hi");
  publish(server, "c.d", "ho");
  publish(server, "x", "no");
  run_until([&] { return messages.size() == 2; });
  std::sort(messages.begin(), messages.end());
  EXPECT_EQ(messages, (std::vector<std::string>{"a.b: hi", "c.>: ho"}));
  EXPECT_EQ(reports, std::vector<std::string>{""});
  EXPECT_EQ(client->dropped(), 0U);
}

TEST_F(NatsClientTest, SubscribesAndUnsubscribesWhileConnected) {
  const NatsServer server;
  open(server.endpoint());
  ASSERT_TRUE(client->subscribe("first"));
  run_until([&] { return client->is_connected(); });
  ASSERT_TRUE(client->subscribe("later"));
  run_until([&] {
    publish(server, "later", "x");
    return !messages.empty();
  });
  client->unsubscribe("later");
  messages.clear();
  publish(server, "later", "x");
  publish(server, "first", "y");
  run_until([&] { return !messages.empty(); });
  EXPECT_EQ(messages, std::vector<std::string>{"first: y"});
}

TEST_F(NatsClientTest, SubscribesAgainAfterTheServerRestarted) {
  NatsServer server;
  open(server.endpoint());
  ASSERT_TRUE(client->subscribe("a.b"));
  run_until([&] { return client->is_connected(); });
  server.stop();
  run_until([&] { return !client->is_connected(); });
  EXPECT_EQ(reports.back(), "the server closed the connection");
  run_until([&] { return reports.back().starts_with("no server answers; check the address"); });
  server.start();
  run_until([&] { return client->is_connected(); });
  EXPECT_EQ(reports.back(), "");
  publish(server, "a.b", "again");
  run_until([&] { return messages.size() == 1; });
  EXPECT_EQ(messages, std::vector<std::string>{"a.b: again"});
}

TEST_F(NatsClientTest, DropsAndCountsMessagesThatTheLoopDoesNotTake) {
  const NatsServer server;
  options.waiting_max = 10;
  open(server.endpoint());
  ASSERT_TRUE(client->subscribe("a.b"));
  run_until([&] { return client->is_connected(); });
  publish(server, "a.b", "x", 100);
  for (int waited = 0; client->dropped() < 90 && waited < 3'000; ++waited) std::this_thread::sleep_for(10ms);
  EXPECT_EQ(client->dropped(), 90U);
  run_until([&] { return messages.size() == 10; });
  publish(server, "a.b", "x");
  run_until([&] { return messages.size() == 11; });
  EXPECT_EQ(client->dropped(), 90U);
}

TEST_F(NatsClientTest, ReportsASubjectThatTheServerRefuses) {
  const NatsServer server{R"(authorization: { users: [
      { user: u, password: p, permissions: { publish: ">", subscribe: "open.>" } } ] })"};
  options.access.user = "u";
  options.access.password_file = files.write("password", "p");
  open(server.endpoint());
  ASSERT_TRUE(client->subscribe("open.a") && client->subscribe("closed.a"));
  run_until([&] { return !reports.empty() && !reports.back().empty(); });
  EXPECT_NE(reports.back().find("refuses a subject"), std::string::npos) << reports.back();
  EXPECT_NE(reports.back().find("closed.a"), std::string::npos) << reports.back();
  publish(server, "open.a", "x", 1, [](natsOptions* made) { natsOptions_SetUserInfo(made, "u", "p"); });
  run_until([&] { return !messages.empty(); });
}

// ---- servers that are none ------------------------------------------------------------------------------------------

// Sends the same text to everyone who connects, and nothing else.
class MuteServer {
 public:
  explicit MuteServer(std::string greeting)
      : listening_(*net::listen_on(net::Address{}, false)), thread_([this, greeting = std::move(greeting)] {
          while (!stopping_) {
            const int accepted = ::accept4(listening_, nullptr, nullptr, SOCK_CLOEXEC);
            if (accepted < 0) {
              std::this_thread::sleep_for(1ms);
              continue;
            }
            ++connections;
            [[maybe_unused]] const ssize_t sent = ::send(accepted, greeting.data(), greeting.size(), MSG_NOSIGNAL);
            accepted_.push_back(accepted);
          }
        }) {}
  ~MuteServer() {
    stopping_ = true;
    thread_.join();
    for (const int accepted : accepted_) ::close(accepted);
    ::close(listening_);
  }
  MuteServer(const MuteServer&) = delete;
  MuteServer& operator=(const MuteServer&) = delete;
  [[nodiscard]] NatsEndpoint endpoint(bool tls = false) const {
    return {"127.0.0.1", net::local_address(listening_).port(), {}, tls};
  }
  std::atomic<int> connections{0};

 private:
  int listening_;
  std::vector<int> accepted_;
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

TEST_F(NatsClientTest, ReportsEachCauseOnceAndGoesOn) {
  const std::pair<const char*, const char*> table[] = {
      {"", "the server does not answer in time; check that it is a NATS server"},
      {"SSH-2.0-OpenSSH\r\n", "the answer is not of the protocol of NATS; check the address"},
      {"HTTP/1.1 400 Bad Request\r\n\r\n", "the answer is not of the protocol of NATS; check the address"},
  };
  options.connect_time = 500ms;
  for (const auto& [greeting, cause] : table) {
    SCOPED_TRACE(greeting);
    reports.clear();
    const MuteServer server{greeting};
    open(server.endpoint());
    run_until([&] { return server.connections >= 3 && !reports.empty(); });
    EXPECT_EQ(reports, std::vector<std::string>{cause});
    client.reset();
  }
}

TEST_F(NatsClientTest, GivesUpAHandshakeThatDoesNotEnd) {
  options.connect_time = 20ms;
  const MuteServer server{"INFO {\"server_id\":\"N\",\"tls_required\":true}\r\n"};
  open(server.endpoint(true));
  run_until([&] { return server.connections >= 4 && !reports.empty(); });
  EXPECT_EQ(reports, std::vector<std::string>{"the server does not answer in time"});
  client.reset();  // It does not wait for the four handshakes.
}

TEST_F(NatsClientTest, ItsEndDoesNotWaitForALookUp) {
  std::promise<void> end;
  const auto ended = end.get_future().share();
  std::promise<void> begin;
  options.resolve = [ended, &begin](const std::string& host, std::uint16_t) -> net::Resolver::Addresses {
    begin.set_value();
    ended.wait();
    return core::environment_error(host, "the name has no address");
  };
  open({"nats.example", 4222, {}, false});
  auto begun = begin.get_future();
  run_until([&] { return begun.wait_for(0s) == std::future_status::ready; });
  client.reset();
  EXPECT_EQ(reports, std::vector<std::string>{});
  end.set_value();
}

TEST_F(NatsClientTest, LooksUpANameAgainAfterAFailure) {
  const NatsServer server;
  std::atomic<int> lookups = 0;
  options.resolve = [&](const std::string& host, std::uint16_t port) -> net::Resolver::Addresses {
    if (++lookups == 1) return core::environment_error(host, "the name has no address");
    return std::vector{*net::Address::parse("127.0.0.1", port)};
  };
  open({"nats.example", server.endpoint().port, {}, false});
  run_until([&] { return client->is_connected(); });
  EXPECT_EQ(lookups, 2);
  ASSERT_EQ(reports.size(), 2U);
  EXPECT_NE(reports[0].find("has no address"), std::string::npos) << reports[0];
}

}  // namespace
}  // namespace penstock::connect
