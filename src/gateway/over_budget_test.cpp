// Requests of tenants that are over their limits, and requests that the end of the gateway cuts, from the outside.
#include <future>
#include <memory>
#include <thread>
#include <vector>

#include "gateway/gateway.h"
#include "gateway/gateway_testing.h"

namespace penstock::gateway {
namespace {

using namespace std::chrono_literals;

const std::string kShop = "Authorization: Bearer sk-shop\r\n";
const std::string kMovedField = "x-penstock-traffic-class";

// One request of the tenant at once; the others become batch requests.
GatewayOptions moving_options() {
  GatewayOptions options = quiet_options();
  options.dispatch.tenants.resize(1);
  options.dispatch.tenants[0].name = "shop";
  options.dispatch.tenants[0].concurrent = 1;
  options.dispatch.tenants[0].over_budget = dispatch::OverBudget::kBatch;
  options.api_keys.push_back({"sk-shop", 0});
  options.dispatch.interactive.queue_time = 50ms;
  options.dispatch.batch.queue_time = 1min;
  return options;
}

std::unique_ptr<RawClient> send_chat(const TestGateway& gateway, const std::string& fields = {}) {
  auto client = std::make_unique<RawClient>(gateway.address());
  client->send(chat_request(chat_body(), kShop + fields));
  return client;
}

// Answers its first request when it is told to, and the others at once.
struct PatientReplica {
  std::promise<void> go;
  std::shared_future<void> gone{go.get_future()};
  TestReplica replica{[this](Peer& peer, const std::string&, int number) {
    if (number == 0) gone.wait_for(10s);
    peer.send(good_answer());
  }};
};

TEST(OverBudget, ARequestAboveALimitBecomesABatchRequestAndItsClientIsTold) {
  PatientReplica held;
  TestGateway gateway{{spec_of(held.replica, "r1")}, moving_options()};
  const auto within = send_chat(gateway);
  EXPECT_TRUE(gateway.wait_for(R"("running":1)"));
  const auto above = send_chat(gateway);
  EXPECT_TRUE(gateway.wait_for(R"("batch":1)"));
  std::this_thread::sleep_for(200ms);  // More than the queue time of its own class.
  EXPECT_NE(gateway.admin("/metrics").find("penstock_tenant_moved_to_batch_total{tenant=\"shop\"} 1\n"),
            std::string::npos);
  held.go.set_value();
  const auto first = within->read_answer(), second = above->read_answer();
  EXPECT_EQ(first.status, 200);
  EXPECT_EQ(field_in(first.head, kMovedField), "");
  EXPECT_EQ(second.status, 200);
  EXPECT_EQ(field_in(second.head, kMovedField), "batch");
  const auto entries = gateway.closed(2);
  ASSERT_EQ(entries.size(), 2U);
  EXPECT_EQ(entries[0].traffic_class, "interactive");
  EXPECT_EQ(entries[1].traffic_class, "batch");
  EXPECT_NE(gateway.admin("/metrics").find("class=\"batch\""), std::string::npos) << "its latencies are of that class";
}

TEST(OverBudget, SuchARequestIsDeferredWhereBatchRequestsAre) {
  PatientReplica held;
  GatewayOptions options = moving_options();
  options.dispatch.batch.completion_window = 10min;
  TestGateway gateway{{spec_of(held.replica, "r1")}, options};
  const auto within = send_chat(gateway);
  EXPECT_TRUE(gateway.wait_for(R"("running":1)"));
  const auto above = send_chat(gateway);
  EXPECT_TRUE(gateway.wait_for(R"("deferred":{"requests":1,)"));
  held.go.set_value();
  EXPECT_EQ(within->read_answer().status, 200);
  EXPECT_EQ(field_in(above->read_answer().head, kMovedField), "batch");
}

TEST(OverBudget, TheTimeBudgetOfSuchARequestIsThatOfTheClassBatch) {
  PatientReplica held;
  GatewayOptions options = moving_options();
  options.dispatch.batch.time_budget = 100ms;
  TestGateway gateway{{spec_of(held.replica, "r1")}, options};
  const auto within = send_chat(gateway);
  EXPECT_TRUE(gateway.wait_for(R"("running":1)"));
  const auto above = send_chat(gateway)->read_answer();
  EXPECT_EQ(above.status, 504);
  EXPECT_NE(above.body.find("time_budget_exceeded"), std::string::npos);
  const auto shorter = send_chat(gateway, "X-Time-Budget: 50ms\r\n")->read_answer();
  EXPECT_EQ(shorter.status, 504);
  held.go.set_value();
  EXPECT_EQ(within->read_answer().status, 200);
}

TEST(GatewayEnd, ARequestThatTheEndOfTheGatewayCutsHasRetryAfter) {
  TestReplica hung{[](Peer& peer, const std::string&, int) { peer.wait_until_closed(); }};
  TestGateway gateway{{spec_of(hung, "r1")}};
  RawClient client{gateway.address()};
  client.send(chat_request(chat_body()));
  for (int i = 0; i < 2000 && hung.requests().empty(); ++i) std::this_thread::sleep_for(5ms);
  (*gateway).cut();
  const auto answer = client.read_answer();
  EXPECT_EQ(answer.status, 503);
  EXPECT_NE(answer.body.find("gateway_stops"), std::string::npos);
  EXPECT_EQ(field_in(answer.head, "retry-after"), "1");
  gateway.end();
}

}  // namespace
}  // namespace penstock::gateway
