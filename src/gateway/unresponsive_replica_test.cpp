// Replicas that answer nothing any more, as a stopped process or a lost node, and what happens to their requests.
#include <atomic>

#include "gateway/gateway_testing.h"

namespace penstock::gateway {
namespace {

using namespace std::chrono_literals;

// Health checks that are more than those that make a replica unresponsive.
constexpr int kManyChecks = 8;

// Sends `beginning` and hangs: from its first completion on it answers `while_hung` to GET requests of the gateway, or
// nothing if that is empty. It answers the completion once the test ends the hang.
class HangingReplica {
 public:
  explicit HangingReplica(std::string beginning = {}, std::function<std::string(const std::string&)> while_hung = {})
      : beginning_(std::move(beginning)),
        while_hung_(std::move(while_hung)),
        server_([this](Peer& peer, int) { serve(peer); }) {}

  [[nodiscard]] ReplicaEndpoint spec(const std::string& id) const {
    ReplicaEndpoint made = replica_named(id);
    made.url = "http://" + server_.address().text();
    made.addresses = {server_.address()};
    return made;
  }
  [[nodiscard]] int completions() const { return completions_; }
  void wait_for_checks(int checks) const {
    for (int i = 0; i < 4000 && checks_ < checks; ++i) std::this_thread::sleep_for(5ms);
    EXPECT_GE(checks_, checks);
  }
  void answer() { answers_ = true; }

 private:
  void serve(Peer& peer) {
    while (const auto request = peer.read_request()) {
      if (request->starts_with("POST ")) {
        ++completions_;
        peer.send(beginning_);
        if (!beginning_.empty()) return peer.wait_until_closed();
        for (int i = 0; i < 4000 && !answers_; ++i) std::this_thread::sleep_for(5ms);
        peer.send(good_answer("late"));
        continue;
      }
      const bool checks_health = request->starts_with("GET /health");
      std::string answer = with_length(checks_health ? "200 OK" : "404 Not Found", "{}");
      if (request->starts_with("GET /v1/models")) answer = with_length("200 OK", kModelsAnswer);
      if (completions_ > 0 && !answers_) {
        checks_ += checks_health ? 1 : 0;
        answer = while_hung_ ? while_hung_(*request) : std::string{};
      }
      if (answer.empty()) return peer.wait_until_closed();
      peer.send(answer);
    }
  }

  std::string beginning_;
  std::function<std::string(const std::string&)> while_hung_;
  std::atomic<int> completions_ = 0, checks_ = 0;
  std::atomic<bool> answers_ = false;
  net::testing::ScriptedServer server_;  // Declared last, because its threads use the other members.
};

// The other limits of an attempt are longer than the test waits.
GatewayOptions checked_often() {
  GatewayOptions options = quiet_options();
  options.health_interval = 20ms;
  options.health_timeout = 100ms;
  return options;
}

// A request that the hanging replica has, and another replica that joins after that.
class RequestAtHangingReplica {
 public:
  explicit RequestAtHangingReplica(HangingReplica& hanging, GatewayOptions options = checked_often(),
                                   std::string_view more = {})
      : gateway_({hanging.spec("hanging")}, std::move(options)), client_(gateway_.address()) {
    client_.send(chat_request(chat_body("hi", more)));
    for (int i = 0; i < 4000 && hanging.completions() == 0; ++i) std::this_thread::sleep_for(5ms);
    EXPECT_EQ(hanging.completions(), 1);
    gateway_.set_replicas({hanging.spec("hanging"), spec_of(good_, "good")});
  }
  TestGateway& gateway() { return gateway_; }
  RawClient& client() { return client_; }
  [[nodiscard]] std::size_t good_requests() const { return good_.requests().size(); }

 private:
  TestReplica good_{answer_well};
  TestGateway gateway_;
  RawClient client_;
};

TEST(UnresponsiveReplica, RequestsWithoutAByteAreRetriedElsewhere) {
  HangingReplica hanging;
  RequestAtHangingReplica request{hanging};
  const auto answer = request.client().read_answer();
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(field_in(answer.head, "x-penstock-replica"), "good");
  EXPECT_EQ(request.gateway().log().count(logging::Event::kReplicaUnresponsive), 1U);
  EXPECT_EQ(request.gateway().log().count(logging::Event::kRetry), 1U);
  EXPECT_TRUE(request.gateway().wait_for(R"("failures_total":1)"));
  hanging.answer();
  request.gateway().end();
}

TEST(UnresponsiveReplica, AStreamEndsAsTruncatedAfterItsOwnLimit) {
  HangingReplica hanging{chunked_head() + chunk(text_event("one"))};
  GatewayOptions options = checked_often();
  options.dispatch.unresponsive_idle_timeout = 1s;
  RequestAtHangingReplica request{hanging, options, kStream};
  const auto answer = request.client().read_answer();
  EXPECT_FALSE(answer.whole);
  EXPECT_NE(answer.body.find("one"), std::string::npos);
  EXPECT_NE(answer.body.find("truncated"), std::string::npos);
  EXPECT_EQ(answer.body.find("[DONE]"), std::string::npos);
  EXPECT_EQ(request.gateway().closed(1).front().outcome, ledger::Outcome::kTruncated);
  EXPECT_EQ(request.good_requests(), 0U);
  request.gateway().end();
}

// Its checks fail in any of these ways, and the replica keeps its request.
void expect_no_retry(HangingReplica& hanging) {
  RequestAtHangingReplica request{hanging};
  hanging.wait_for_checks(kManyChecks);
  // Workers look at their requests every 700 ms.
  std::this_thread::sleep_for(1s);
  hanging.answer();
  const auto answer = request.client().read_answer();
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(field_in(answer.head, "x-penstock-replica"), "hanging");
  EXPECT_EQ(request.gateway().log().count(logging::Event::kReplicaUnresponsive), 0U);
  EXPECT_EQ(request.good_requests(), 0U);
  request.gateway().end();
}

TEST(UnresponsiveReplica, AReplicaThatIsOnlySlowKeepsItsRequests) {
  HangingReplica slow{{}, [](const std::string& request) {
                        return request.starts_with("GET /v1/models") ? with_length("200 OK", kModelsAnswer)
                                                                     : std::string{};
                      }};
  expect_no_retry(slow);
}

TEST(UnresponsiveReplica, AReplicaThatAnswersChecksWithAnErrorKeepsItsRequests) {
  HangingReplica draining{{}, [](const std::string&) { return with_length("503 Service Unavailable", "{}"); }};
  expect_no_retry(draining);
}

TEST(UnresponsiveReplica, AReplicaWhoseAddressIsLostAndFoundIsStillUnresponsive) {
  HangingReplica hanging;
  TestReplica good{answer_well};
  TestGateway gateway{{hanging.spec("hanging")}, checked_often()};
  RawClient client{gateway.address()};
  client.send(chat_request(chat_body()));
  for (int i = 0; i < 4000 && gateway.log().count(logging::Event::kReplicaUnresponsive) == 0; ++i)
    std::this_thread::sleep_for(5ms);
  ReplicaEndpoint lost = hanging.spec("hanging");
  lost.addresses.clear();
  gateway.set_replicas({lost});
  gateway.set_replicas({hanging.spec("hanging"), spec_of(good, "good")});
  const auto answer = client.read_answer();
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(field_in(answer.head, "x-penstock-replica"), "good");
  hanging.answer();
  gateway.end();
}

TEST(UnhealthyReplica, ThatReturnsToTheListWithARequestInFlightGetsRequests) {
  std::atomic<bool> fails = true;
  HangingReplica replica{{}, [&](const std::string& request) {
                           if (request.starts_with("GET /v1/models")) return with_length("200 OK", kModelsAnswer);
                           return with_length(fails ? "503 Service Unavailable" : "200 OK", "{}");
                         }};
  TestGateway gateway{{replica.spec("r1")}, checked_often()};
  RawClient first{gateway.address()}, second{gateway.address()};
  first.send(chat_request(chat_body()));
  EXPECT_TRUE(gateway.wait_for(R"("eligible":false)"));
  gateway.set_replicas({});
  fails = false;
  gateway.set_replicas({replica.spec("r1")});
  EXPECT_TRUE(gateway.wait_for(R"("eligible":true)"));
  second.send(chat_request(chat_body()));
  for (int i = 0; i < 4000 && replica.completions() < 2; ++i) std::this_thread::sleep_for(5ms);
  replica.answer();
  EXPECT_EQ(first.read_answer().status, 200);
  EXPECT_EQ(second.read_answer().status, 200);
  gateway.end();
}

TEST(UnresponsiveReplica, WithoutAnotherReplicaTheRequestWaitsForIt) {
  HangingReplica hanging;
  TestGateway gateway{{hanging.spec("hanging")}, checked_often()};
  RawClient client{gateway.address()};
  client.send(chat_request(chat_body()));
  for (int i = 0; i < 4000 && gateway.log().count(logging::Event::kReplicaUnresponsive) == 0; ++i)
    std::this_thread::sleep_for(5ms);
  EXPECT_EQ(gateway.log().count(logging::Event::kReplicaUnresponsive), 1U);
  std::this_thread::sleep_for(1s);
  hanging.answer();
  EXPECT_EQ(client.read_answer().status, 200);
  EXPECT_EQ(hanging.completions(), 1);
  gateway.end();
}

}  // namespace
}  // namespace penstock::gateway
