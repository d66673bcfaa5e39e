// What a gateway reports: the events of requests and replicas, and the access log.
#include <gtest/gtest.h>

#include "gateway/gateway_testing.h"

namespace penstock::gateway {
namespace {

using logging::Event;
using namespace std::chrono_literals;

class GatewayLogTest : public testing::Test {
 protected:
  // The lines of an event, once there are so many.
  static std::vector<std::string> lines(const TestGateway& gateway, Event event, std::size_t count = 1) {
    for (int i = 0; i < 2000 && gateway.log().count(event) < count; ++i) std::this_thread::sleep_for(5ms);
    std::vector<std::string> found = gateway.log().lines(event);
    EXPECT_GE(found.size(), count);
    found.resize(std::max(found.size(), count));
    return found;
  }
  static std::string value_in(const std::string& line, const std::string& name) {
    const std::size_t at = line.find(" " + name + "=");
    if (at == std::string::npos) return {};
    const std::size_t begin = at + name.size() + 2;
    return line.substr(begin, line.find(' ', begin) - begin);
  }
  static void fail(Peer& peer, const std::string&, int) { peer.send(with_length("500 Internal Server Error", "{}")); }
};

TEST_F(GatewayLogTest, AccessLineDescribesARequest) {
  TestReplica replica{answer_well};
  TestGateway gateway{{spec_of(replica, "r1")}};
  EXPECT_EQ(ask(gateway, chat_body(), "x-request-id: r-7\r\nX-Traffic-Class: batch\r\n").status, 200);
  const std::string line = lines(gateway, Event::kAccess).front();
  EXPECT_TRUE(
      line.starts_with("access request_id=r-7 tenant=anonymous model=m class=batch path=/v1/chat/completions "
                       "status=200 outcome=completed replica=r1 attempts=1 queue_ms="))
      << line;
  EXPECT_EQ(value_in(line, "tokens_in"), "12");
  EXPECT_EQ(value_in(line, "tokens_out"), "3");
  EXPECT_EQ(value_in(line, "tokens_cached"), "4");
  EXPECT_EQ(value_in(line, "ttft_ms"), "") << "only streams have a first token";
  EXPECT_NE(value_in(line, "duration_ms"), "");
}

TEST_F(GatewayLogTest, AccessLineOfAStreamHasItsTimeToFirstToken) {
  TestReplica replica{[](Peer& peer, const std::string&, int) {
    peer.send(chunked_head() + chunk(text_event("a")) + chunk(std::string{api::kDoneEvent}) + "0\r\n\r\n");
  }};
  TestGateway gateway{{spec_of(replica, "r1")}};
  EXPECT_EQ(ask(gateway, chat_body("hi", kStream)).status, 200);
  EXPECT_NE(value_in(lines(gateway, Event::kAccess).front(), "ttft_ms"), "");
}

TEST_F(GatewayLogTest, RefusalsAreLoggedOnceForEachReasonAndTenant) {
  GatewayOptions options = quiet_options();
  options.dispatch.tenants.emplace_back().name = "shop";
  options.api_keys.push_back({"sk-shop", 0});
  options.anonymous = false;
  TestReplica replica{answer_well};
  TestGateway gateway{{spec_of(replica, "r1")}, std::move(options)};
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(ask(gateway, chat_body()).status, 401);
    EXPECT_EQ(ask(gateway, R"({"model":"other"})", "Authorization: Bearer sk-shop\r\nx-request-id: a\"b\r\n").status,
              400);
  }
  lines(gateway, Event::kAccess, 6);
  const auto refusals = lines(gateway, Event::kRefusal, 2);
  ASSERT_EQ(refusals.size(), 2U);
  EXPECT_TRUE(refusals[0].starts_with("refusal code=invalid_api_key status=401 request_id=req-")) << refusals[0];
  EXPECT_TRUE(refusals[0].ends_with(" suppressed=0")) << refusals[0];
  EXPECT_EQ(refusals[1], R"(refusal code=invalid_request status=400 tenant=shop request_id="a\"b" suppressed=0)");
  EXPECT_EQ(value_in(lines(gateway, Event::kAccess)[0], "outcome"), "refused");
  EXPECT_EQ(value_in(lines(gateway, Event::kAccess)[0], "status"), "401");
  for (const std::string& line : gateway.log().lines()) EXPECT_EQ(line.find("sk-shop"), std::string::npos) << line;
}

TEST_F(GatewayLogTest, ARetryNamesBothReplicasAndTheCause) {
  TestReplica broken{fail}, good{answer_well};
  ReplicaEndpoint first = spec_of(broken, "r1"), second = spec_of(good, "r2");
  first.weight = 1e6;
  TestGateway gateway{{first, second}};
  for (int i = 0; i < 50 && gateway.log().count(Event::kRetry) == 0; ++i)
    EXPECT_EQ(ask(gateway, chat_body("prompt " + std::to_string(i)), "x-request-id: r-1\r\n").status, 200);
  EXPECT_EQ(lines(gateway, Event::kRetry).front(),
            R"(retry request_id=r-1 replica=r1 cause="server error" attempt=1 next_replica=r2)");
}

TEST_F(GatewayLogTest, BreakersAndHealthAreLoggedOnceForEachChange) {
  GatewayOptions options = quiet_options();
  options.dispatch.circuit_breaker.failures = 2;
  options.dispatch.circuit_breaker.open = 100ms;
  options.dispatch.retries = 0;
  options.health_interval = options.scrape_interval = 20ms;
  std::atomic<bool> works = false;
  TestReplica replica{[&](Peer& peer, const std::string& request, int number) {
    works ? answer_well(peer, request, number) : fail(peer, request, number);
  }};
  TestReplica other{answer_well};
  ReplicaEndpoint gone = replica_named("gone");
  TestGateway gateway{{spec_of(replica, "r1"), spec_of(other, "r2"), gone}, std::move(options)};
  EXPECT_EQ(lines(gateway, Event::kReplicaAdded, 3).front(),
            "replica_added replica=gone url=http://127.0.0.1:9 model=m pool=default role=aggregated phase=serving");
  const std::string unhealthy = lines(gateway, Event::kReplicaUnhealthy).front();
  EXPECT_TRUE(unhealthy.starts_with("replica_unhealthy replica=gone url=http://127.0.0.1:9 cause=")) << unhealthy;
  EXPECT_EQ(value_in(lines(gateway, Event::kTelemetryUnavailable, 2).front(), "url").substr(0, 17),
            "http://127.0.0.1:");
  for (int i = 0; i < 100 && gateway.log().count(Event::kBreakerOpen) == 0; ++i) ask(gateway, chat_body());
  EXPECT_EQ(lines(gateway, Event::kBreakerOpen).front().substr(0, 62),
            "breaker_open replica=r1 failures=2 cause=consecutive_failures ");
  works = true;
  lines(gateway, Event::kBreakerTrying);
  for (int i = 0; i < 100 && gateway.log().count(Event::kBreakerClosed) == 0; ++i) ask(gateway, chat_body());
  EXPECT_EQ(lines(gateway, Event::kBreakerClosed).front(), "breaker_closed replica=r1");
  EXPECT_EQ(gateway.log().count(Event::kReplicaUnhealthy), 1U);
  gateway.set_replicas({spec_of(replica, "r1"), spec_of(other, "r2")});
  EXPECT_EQ(lines(gateway, Event::kReplicaRemoved).front(), "replica_removed replica=gone url=http://127.0.0.1:9");
}

TEST_F(GatewayLogTest, AnAnswerThatBreaksOffIsTruncated) {
  TestReplica replica{[](Peer& peer, const std::string&, int) {
    peer.send(chunked_head() + chunk(text_event("a")));
    peer.cut();
  }};
  TestGateway gateway{{spec_of(replica, "r1")}};
  RawClient client{gateway.address()};
  client.send(chat_request(chat_body("hi", kStream), "x-request-id: r-1\r\n"));
  EXPECT_EQ(
      lines(gateway, Event::kRequestFailed).front(),
      "request_failed request_id=r-1 tenant=anonymous replica=r1 cause=\"closed before the response was complete\"");
  EXPECT_EQ(value_in(lines(gateway, Event::kAccess).front(), "outcome"), "truncated");
}

TEST_F(GatewayLogTest, EachPhaseOfARequestIsLogged) {
  TestReplica replica{answer_well};
  TestGateway gateway{{spec_of(replica, "r1")}};
  EXPECT_EQ(ask(gateway, chat_body(), "x-request-id: r-1\r\n").status, 200);
  lines(gateway, Event::kAccess);
  std::string path;
  for (const std::string& line : lines(gateway, Event::kRequestPhase, 6)) path += " " + value_in(line, "to");
  EXPECT_EQ(path, " reading admitting connecting awaiting_first_byte relaying idle");
}

}  // namespace
}  // namespace penstock::gateway
