// Batch requests that wait for spare capacity, from the outside.
#include <charconv>
#include <future>
#include <memory>
#include <vector>

#include "gateway/gateway.h"
#include "gateway/gateway_testing.h"

namespace penstock::gateway {
namespace {

using namespace std::chrono_literals;

const std::string kBatch = "X-Traffic-Class: batch\r\n";
const std::string kFewTokens = R"(,"max_tokens":4,"stream":true)";

GatewayOptions deferring() {
  GatewayOptions options = quiet_options();
  options.dispatch.batch.completion_window = 10min;
  options.dispatch.batch.queue_time = 50ms;
  return options;
}

// Answers the first request when it is told to, and the others at once.
class HeldReplica {
 public:
  [[nodiscard]] const TestReplica& replica() const { return replica_; }
  void answer_first() { go_.set_value(); }

 private:
  std::promise<void> go_;
  std::shared_future<void> gone_{go_.get_future()};
  TestReplica replica_{[this](Peer& peer, const std::string&, int number) {
    if (number == 0) gone_.wait_for(10s);
    peer.send(good_answer());
  }};
};

std::unique_ptr<RawClient> send(const TestGateway& gateway, const std::string& fields = {}) {
  auto client = std::make_unique<RawClient>(gateway.address());
  client->send(chat_request(chat_body(std::string(4'000, 'a'), kFewTokens), fields));
  return client;
}

TEST(GatewayDeferral, BatchWaitsForSpareCapacityLongerThanItsQueueTime) {
  HeldReplica held;
  TestGateway gateway{{spec_of(held.replica(), "r1")}, deferring()};
  const auto chat = send(gateway);
  EXPECT_TRUE(gateway.wait_for(R"("running":1)"));
  std::vector<std::unique_ptr<RawClient>> batch;
  for (int i = 0; i < 3; ++i) batch.push_back(send(gateway, kBatch));
  EXPECT_TRUE(gateway.wait_for(R"("deferred":{"requests":3,)"));
  EXPECT_TRUE(gateway.wait_for(R"("batch":0)")) << "they are no backlog";
  std::this_thread::sleep_for(200ms);  // More than their queue time.
  EXPECT_EQ(held.replica().requests().size(), 1U);
  const std::string metrics = gateway.admin("/metrics");
  EXPECT_NE(metrics.find("penstock_deferred_requests 3\n"), std::string::npos);
  // They are due a tenth of their window before its end.
  const std::string due = "\npenstock_deferred_next_due_seconds ";
  ASSERT_NE(metrics.find(due), std::string::npos) << metrics;
  double due_s = 0.0;
  const char* const figure = metrics.data() + metrics.find(due) + due.size();
  std::from_chars(figure, metrics.data() + metrics.size(), due_s);
  EXPECT_GT(due_s, 500.0);
  EXPECT_LE(due_s, 540.0);
  held.answer_first();
  EXPECT_EQ(chat->read_answer().status, 200);
  for (const auto& client : batch) EXPECT_EQ(client->read_answer().status, 200);
  EXPECT_TRUE(gateway.wait_for(R"("next_due_s":null,"deferred_total":3,"sent_spare_total":3,"sent_due_total":0,)"
                               R"("missed_total":0)"));
  EXPECT_EQ(gateway.admin("/metrics").find(due), std::string::npos) << "none waits";
  EXPECT_NE(gateway.admin("/metrics").find("penstock_deferred_sent_total{reason=\"spare\"} 3\n"), std::string::npos);
}

TEST(GatewayDeferral, NearItsDeadlineBatchIsSentBesideInteractiveRequests) {
  HeldReplica held;
  TestGateway gateway{{spec_of(held.replica(), "r1")}, deferring()};
  const auto chat = send(gateway);
  EXPECT_TRUE(gateway.wait_for(R"("running":1)"));
  const auto batch = send(gateway, kBatch + "X-Completion-Window: 5s\r\n");
  EXPECT_TRUE(gateway.wait_for(R"("deferred":{"requests":1,)"));
  EXPECT_EQ(batch->read_answer().status, 200) << "while the prompt of the first request is still computed";
  EXPECT_TRUE(gateway.wait_for(R"("sent_due_total":1)"));
  held.answer_first();
  EXPECT_EQ(chat->read_answer().status, 200);
}

TEST(GatewayDeferral, AClientThatLeavesFreesItsPlaceAtOnce) {
  HeldReplica held;
  TestGateway gateway{{spec_of(held.replica(), "r1")}, deferring()};
  const auto chat = send(gateway);
  EXPECT_TRUE(gateway.wait_for(R"("running":1)"));
  {
    const auto batch = send(gateway, kBatch);
    EXPECT_TRUE(gateway.wait_for(R"("deferred":{"requests":1,)"));
  }
  EXPECT_TRUE(gateway.wait_for(R"("deferred":{"requests":0,)"));
  held.answer_first();
  EXPECT_EQ(chat->read_answer().status, 200);
  EXPECT_EQ(held.replica().requests().size(), 1U);
}

TEST(GatewayDeferral, AWindowThatIsNoTimeIsRefused) {
  TestReplica replica{answer_well};
  TestGateway gateway{{spec_of(replica, "r1")}, deferring()};
  for (const char* window : {"soon", "5", "0s", "-1m", "25h", "1e3s"}) {
    const auto answer = ask(gateway, chat_body(), kBatch + "X-Completion-Window: " + window + "\r\n");
    EXPECT_EQ(answer.status, 400) << window;
    EXPECT_NE(answer.body.find("invalid_completion_window"), std::string::npos) << answer.body;
    EXPECT_NE(answer.body.find("such as 5m or 90s"), std::string::npos) << answer.body;
  }
  EXPECT_EQ(ask(gateway, chat_body(), kBatch + "X-Completion-Window: 1h\r\n").status, 200);
}

}  // namespace
}  // namespace penstock::gateway
