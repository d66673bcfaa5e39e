// Replicas that serve requests and answer health checks too late, as an API server that is busy with long prompts.
#include <atomic>

#include "gateway/gateway_testing.h"

namespace penstock::gateway {
namespace {

using namespace std::chrono_literals;

// Never answers /health. The connection stays open until the gateway closes it.
class BusyReplica {
 public:
  BusyReplica()
      : server_([this](Peer& peer, int) {
          while (const auto request = peer.read_request()) {
            if (request->starts_with("GET /health")) {
              ++checks_;
              peer.wait_until_closed();
            } else if (request->starts_with("GET /v1/models")) {
              peer.send(with_length("200 OK", kModelsAnswer));
            } else if (request->starts_with("GET ")) {
              peer.send(with_length("404 Not Found", "{}"));
            } else {
              ++requests_;
              peer.send(good_answer());
            }
          }
        }) {}

  [[nodiscard]] ReplicaEndpoint spec(const std::string& id) const {
    ReplicaEndpoint made = replica_named(id);
    made.url = "http://" + server_.address().text();
    made.addresses = {server_.address()};
    return made;
  }
  [[nodiscard]] int checks() const { return checks_; }
  [[nodiscard]] int requests() const { return requests_; }

 private:
  std::atomic<int> checks_ = 0, requests_ = 0;
  net::testing::ScriptedServer server_;  // Declared last, because its threads use the other members.
};

GatewayOptions checking_options(core::Duration timeout) {
  GatewayOptions options = quiet_options();
  options.health_interval = 20ms;
  options.health_timeout = timeout;
  return options;
}

TEST(HealthTimeout, ReplicasWhoseChecksTimeOutServeIfNoneIsHealthy) {
  BusyReplica first, second;
  TestGateway gateway{{first.spec("r1"), second.spec("r2")}, checking_options(100ms)};
  EXPECT_TRUE(gateway.wait_until([](const std::string& overview) {
    return overview.find(R"("healthy":true)") == std::string::npos &&
           overview.find(R"("eligible":false)") == std::string::npos;
  })) << gateway.admin("/penstock/v1/overview");
  EXPECT_TRUE(gateway.wait_for(R"("code":"health_timeout")"));
  EXPECT_TRUE(gateway.wait_until_ready());
  EXPECT_EQ(ask(gateway, chat_body()).status, 200);
}

TEST(HealthTimeout, AReplicaWhoseChecksTimeOutGetsNothingWhileAnotherIsHealthy) {
  BusyReplica busy;
  TestReplica good{answer_well};
  TestGateway gateway{{busy.spec("busy"), spec_of(good, "good")}, checking_options(100ms)};
  EXPECT_TRUE(gateway.wait_for(R"("code":"health_timeout")"));
  for (int i = 0; i < 10; ++i) EXPECT_EQ(ask(gateway, chat_body()).status, 200);
  EXPECT_EQ(busy.requests(), 0);
}

TEST(HealthTimeout, AReplicaThatRefusesConnectionsIsNoLastResort) {
  BusyReplica busy;
  ReplicaEndpoint gone = replica_named("gone");
  gone.addresses = {*net::Address::parse("127.0.0.1", 1)};
  TestGateway gateway{{busy.spec("busy"), gone}, checking_options(100ms)};
  EXPECT_TRUE(gateway.wait_until([](const std::string& overview) {
    return overview.find(R"("code":"health_timeout")") != std::string::npos &&
           overview.find(R"("code":"unreachable")") != std::string::npos;
  }));
  for (int i = 0; i < 10; ++i) EXPECT_EQ(ask(gateway, chat_body()).status, 200);
  EXPECT_NE(gateway.admin("/penstock/v1/overview").find(R"("retried_total":0)"), std::string::npos);
}

TEST(HealthTimeout, AReplicaThatAnswersRequestsIsHealthyAlthoughItsChecksTimeOut) {
  BusyReplica busy;
  TestGateway gateway{{busy.spec("busy")}, checking_options(1s)};
  while (busy.checks() < 4) ASSERT_EQ(ask(gateway, chat_body()).status, 200);
  EXPECT_EQ(gateway.log().count(logging::Event::kReplicaUnhealthy), 0U);
}

}  // namespace
}  // namespace penstock::gateway
