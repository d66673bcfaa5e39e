// Gateways on loopback that share their budgets over their admin addresses.
#include <gtest/gtest.h>

#include <charconv>
#include <mutex>
#include <string>
#include <vector>

#include "gateway/gateway_testing.h"

namespace penstock::gateway {
namespace {

using namespace std::chrono_literals;

const std::string kKey = "Authorization: Bearer sk-shop\r\n";

// The addresses of the host name that all gateways have as their peers.
class Names {
 public:
  void set(std::vector<net::Address> addresses) {
    const std::scoped_lock lock{mutex_};
    addresses_ = std::move(addresses);
  }
  [[nodiscard]] GatewayOptions options(const admission::BudgetLimits& budget, std::uint32_t concurrent = 0) {
    GatewayOptions made = quiet_options();
    made.anonymous = false;
    made.dispatch.tenants.resize(1);
    made.dispatch.tenants[0].name = "shop";
    made.dispatch.tenants[0].budget = budget;
    made.dispatch.tenants[0].concurrent = concurrent;
    made.api_keys = {{"sk-shop", 0}};
    made.admin_access.hosts = {"gateways"};
    made.peers.urls = {"http://gateways:8081"};
    made.peers.interval = made.peers.dns_interval = 20ms;
    made.peers.lookup = [this](const std::string&, std::uint16_t) -> net::Resolver::Addresses {
      const std::scoped_lock lock{mutex_};
      if (addresses_.empty()) return core::environment_error("gateways", "the name has no address");
      return addresses_;
    };
    return made;
  }

 private:
  std::mutex mutex_;
  std::vector<net::Address> addresses_;
};

std::string body() { return chat_body("hi", R"(,"max_tokens":50)"); }

// The value of the series in /metrics; -1 if there is none.
double metric(TestGateway& gateway, const std::string& series) {
  const std::string text = gateway.admin("/metrics");
  const std::size_t at = text.find("\n" + series + " ");
  double value = -1.0;
  if (at != std::string::npos) std::from_chars(&text[at + series.size() + 2], text.data() + text.size(), value);
  return value;
}

TEST(BudgetExchange, GatewaysOfOneNameShareTheBudgetOfATenant) {
  TestReplica replica{answer_well};
  Names names;
  const GatewayOptions options = names.options({60.0, 2'000.0});
  TestGateway one{{spec_of(replica, "r1")}, options}, other{{spec_of(replica, "r1")}, options};
  names.set({(*one).admin_address(), (*other).admin_address()});
  ASSERT_TRUE(one.wait_until([&](const std::string&) {
    return metric(one, "penstock_peer_gateways{state=\"reachable\"}") == 1.0 &&
           metric(other, "penstock_peer_gateways{state=\"reachable\"}") == 1.0;
  })) << "a gateway does not count itself";
  EXPECT_EQ(metric(one, "penstock_peer_gateways{state=\"unreachable\"}"), 0.0);

  int served = 0;
  while (ask(one, body(), kKey).status == 200) ++served;
  EXPECT_GT(served, 2);
  // What was reserved and not used is returned, so that both know the same in the end.
  ASSERT_TRUE(other.wait_until([&](const std::string&) {
    return metric(other, "penstock_tenant_budget_tokens{tenant=\"shop\"}") < 400.0 &&
           metric(other, "penstock_peer_charged_tokens_total") > 1'600.0;
  }));
  EXPECT_EQ(ask(other, body(), kKey).status, 429);
  EXPECT_LT(metric(one, "penstock_peer_charged_tokens_total"), 1.0);
}

TEST(BudgetExchange, AGatewayThatStartsLearnsWhatIsUsedUp) {
  TestReplica replica{answer_well};
  Names names;
  const GatewayOptions options = names.options({60.0, 2'000.0});
  TestGateway one{{spec_of(replica, "r1")}, options};
  while (ask(one, body(), kKey).status == 200) continue;
  names.set({(*one).admin_address()});
  TestGateway other{{spec_of(replica, "r1")}, options};
  ASSERT_TRUE(other.wait_until(
      [&](const std::string&) { return metric(other, "penstock_tenant_budget_tokens{tenant=\"shop\"}") < 400.0; }));
  EXPECT_EQ(metric(other, "penstock_peer_charged_tokens_total"), 0.0);
  EXPECT_EQ(ask(other, body(), kKey).status, 429);
}

TEST(BudgetExchange, TheConcurrencyLimitOfATenantCountsTheRequestsOfAllUntilAGatewayEnds) {
  std::promise<void> may_end;
  const std::shared_future<void> released = may_end.get_future().share();
  TestReplica replica{[released](Peer& peer, const std::string& request, int number) {
    if (number == 0) released.wait();
    answer_well(peer, request, number);
  }};
  Names names;
  const GatewayOptions options = names.options({}, 1);
  TestGateway one{{spec_of(replica, "r1")}, options}, other{{spec_of(replica, "r1")}, options};
  names.set({(*one).admin_address(), (*other).admin_address()});
  RawClient client{one.address()};
  client.send(chat_request(body(), kKey));
  ASSERT_TRUE(one.wait_until([&](const std::string&) { return replica.requests().size() == 1; }));
  RawClient::Answer answer;
  ASSERT_TRUE(other.wait_until([&](const std::string&) { return (answer = ask(other, body(), kKey)).status == 429; }));
  EXPECT_NE(answer.body.find("0 requests in flight and 1 at other gateways"), std::string::npos) << answer.body;
  may_end.set_value();
  client.read_answer();
  EXPECT_TRUE(other.wait_until([&](const std::string&) { return ask(other, body(), kKey).status == 200; }));
}

TEST(BudgetExchange, AnAnswerThatIsNoReportChangesNothing) {
  TestReplica replica{answer_well};
  for (const std::string& answer :
       {std::string{"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n"}, with_length("200 OK", "[1,2"),
        with_length("200 OK", R"({"boot":"x","number":1,"age_s":0,"tenants":[{"name":"shop","taken":1e18}]})"),
        std::string{"nonsense\r\n\r\n"}}) {
    net::testing::ScriptedServer peer{[&](Peer& from, int) {
      while (from.read_request()) from.send(answer);
    }};
    Names names;
    TestGateway gateway{{spec_of(replica, "r1")}, names.options({60.0, 2'000.0})};
    names.set({peer.address()});
    EXPECT_TRUE(gateway.wait_until([&](const std::string&) {
      return metric(gateway, "penstock_peer_reports_total{result=\"failed\"}") > 0.0;
    })) << answer;
    EXPECT_EQ(metric(gateway, "penstock_tenant_budget_tokens{tenant=\"shop\"}"), 2'000.0);
    EXPECT_EQ(ask(gateway, body(), kKey).status, 200);
    gateway.end();
  }
}

TEST(BudgetExchange, TheAdminAddressReportsToThoseWithTheTokenAndTakesNothing) {
  TestReplica replica{answer_well};
  Names names;
  TestGateway gateway{{spec_of(replica, "r1")}, names.options({60.0, 2'000.0})};
  EXPECT_EQ(gateway.admin_answer("/penstock/v1/budgets", "Host: localhost\r\n").status, 401);
  EXPECT_EQ(gateway.admin_answer("/penstock/v1/budgets", "Host: evil\r\nAuthorization: Bearer token\r\n").status, 421);
  const std::string first = gateway.admin("/penstock/v1/budgets"), second = gateway.admin("/penstock/v1/budgets");
  EXPECT_NE(first.find("\"number\":1,"), std::string::npos) << first;
  EXPECT_NE(second.find("\"number\":2,"), std::string::npos) << "later reports have higher numbers";
  RawClient client{(*gateway).admin_address()};
  client.send(
      "POST /penstock/v1/budgets HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer token\r\nContent-Length: "
      "2\r\n\r\n{}");
  EXPECT_EQ(client.read_answer().status, 405);
  EXPECT_EQ(metric(gateway, "penstock_tenant_budget_tokens{tenant=\"shop\"}"), 2'000.0);
}

}  // namespace
}  // namespace penstock::gateway
