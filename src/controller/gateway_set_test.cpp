#include "controller/gateway_set.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <mutex>
#include <optional>
#include <utility>

#include "controller/live_testing.h"
#include "logging/log_testing.h"
#include "net/tls_testing.h"

namespace penstock::controller {
namespace {

using namespace std::chrono_literals;

std::string overview_of(const std::string& boot, std::uint32_t open, std::uint64_t refused = 0, bool draining = false) {
  return R"({"boot":")" + boot + R"(","now_s":5,"draining":)" + (draining ? "true" : "false") +
         R"(,"replicas":[{"id":"r1","url":"http://r1","model":"m","pool":"default","role":"aggregated",)" +
         R"("phase":"serving","eligible":true,"healthy":true,"open_requests":)" + std::to_string(open) +
         R"(}],"queue":{"models":[]},"refused_total":)" + std::to_string(refused) + "}";
}

// Three gateways, of which the address of a name has the first two.
class GatewaySetTest : public testing::Test {
 protected:
  GatewaySetTest() {
    set_overview(a, "a", 1);
    set_overview(b, "b", 2);
    set_overview(c, "c", 4);
    resolve({a.address(), b.address()});
  }
  void resolve(std::vector<net::Address> addresses) {
    const std::scoped_lock lock{mutex_};
    addresses_ = std::move(addresses);
  }
  // The first page of each gateway has one arrival.
  static void set_overview(ScriptedGateway& gateway, const std::string& boot, std::uint32_t open,
                           std::uint64_t refused = 0, bool draining = false) {
    gateway.overview = overview_of(boot, open, refused, draining);
    gateway.answer_traffic = [boot](std::string_view target) {
      const bool is_first = target.ends_with("?after=0");
      return R"({"boot":")" + boot + R"(","now_s":5,"next":17,"lost":0,"events":[)" +
             (is_first ? R"(["arrival",1,4.5,"m","interactive","shop",900,[1,2]])" : "") + "]}";
    };
  }
  void open() {
    GatewaySetOptions options;
    options.hosts = {{"gateways", 8081}};
    options.access = access;
    options.interval = 20ms;
    options.timeout = 400ms;
    options.dns_interval = 20ms;
    options.lookup = [this](const std::string&, std::uint16_t) -> net::Resolver::Addresses {
      const std::scoped_lock lock{mutex_};
      if (addresses_.empty()) return core::environment_error("gateways", "the name has no address");
      return addresses_;
    };
    GatewaySet::Callbacks callbacks;
    callbacks.state = [this](const GatewayState&, core::Instant at) { requested_at = at; };
    callbacks.answered = [this] { ++answered; };
    callbacks.traffic = [this](const TrafficPage* page) {
      if (page != nullptr && !page->items.empty()) arrivals.push_back(page->boot);
    };
    set.emplace(loop, client, std::move(options), events, std::move(callbacks));
  }
  [[nodiscard]] std::uint32_t open_requests() const {
    return set->state() ? set->state()->replicas.at("r1").open_requests : 0;
  }
  [[nodiscard]] bool until_open(std::uint32_t requests) {
    return run_until(loop, [&] { return open_requests() == requests; });
  }
  [[nodiscard]] bool is_known() const { return set->read_at() && loop.now() <= *set->read_at() + 400ms; }
  void run_for(core::Duration time) {
    EXPECT_TRUE(run_until(loop, [&, from = loop.now()] { return loop.now() > from + time; }));
  }

  net::Loop loop;
  ScriptedGateway a{loop}, b{loop}, c{loop};
  logging::testing::CapturedLog log;
  FleetEvents events{log};
  core::Instant requested_at;
  GatewayAccess access;
  int answered = 0;
  std::vector<std::string> arrivals;

 private:
  std::mutex mutex_;
  std::vector<net::Address> addresses_;

 protected:
  net::Client client{loop};
  std::optional<GatewaySet> set;
};

TEST_F(GatewaySetTest, EachAddressOfANameIsAGatewayAndItsEventsCountOnce) {
  open();
  EXPECT_TRUE(set->is_awaited());
  EXPECT_TRUE(until_open(3));
  run_for(200ms);
  std::sort(arrivals.begin(), arrivals.end());
  EXPECT_EQ(arrivals, (std::vector<std::string>{"a", "b"}));
  EXPECT_FALSE(set->is_awaited());
  EXPECT_TRUE(set->is_up());
  EXPECT_TRUE(is_known());
  EXPECT_EQ(set->gateways().size(), 2U);
  EXPECT_EQ(set->documents().size(), 2U);
  EXPECT_EQ(log.count(logging::Event::kGatewayReachable), 2U);
  EXPECT_EQ(log.count(logging::Event::kHostResolved), 1U);
  EXPECT_EQ(log.count(logging::Event::kSeveralGateways), 0U);
}

TEST_F(GatewaySetTest, ACertificateIsVerifiedForTheNameThatWasGiven) {
  const net::testing::TestCertificate of_name{{"DNS:gateways"}}, of_another{{"DNS:other,IP:127.0.0.1"}};
  ScriptedGateway good{loop, of_name.server()};
  set_overview(good, "good", 5);
  resolve({good.address()});
  access.tls = of_name.client();
  open();
  EXPECT_TRUE(until_open(5));

  ScriptedGateway bad{loop, of_another.server()};
  resolve({bad.address()});
  access.tls = of_another.client();
  open();
  EXPECT_TRUE(run_until(loop, [&] { return set->failure().find("hostname mismatch") != std::string::npos; }));
  EXPECT_TRUE(bad.asked.empty());
}

TEST_F(GatewaySetTest, TheStateIsUnknownUntilEachGatewayHasAnswered) {
  b.status = 503;
  open();
  EXPECT_TRUE(run_until(loop, [&] { return !set->is_awaited(); }));
  run_for(200ms);
  EXPECT_FALSE(set->state()) << "a replica may have open requests of b";
  EXPECT_FALSE(set->read_at());
  EXPECT_FALSE(set->is_up());
  EXPECT_EQ(set->failure(), b.address().text() + ": status 503");
  b.status = 200;
  EXPECT_TRUE(until_open(3));
  EXPECT_TRUE(run_until(loop, [&] { return is_known(); }));
}

TEST_F(GatewaySetTest, AGatewayThatFallsSilentMakesTheStateOld) {
  open();
  EXPECT_TRUE(until_open(3));
  b.status = 503;
  EXPECT_TRUE(run_until(loop, [&] { return !is_known(); }));
  EXPECT_FALSE(set->is_up());
  const core::Instant before = requested_at;
  set_overview(a, "a", 10);
  EXPECT_TRUE(until_open(12)) << "what b has last reported counts";
  EXPECT_EQ(requested_at, before) << "the sum is as old as its oldest part";
  EXPECT_EQ(log.count(logging::Event::kGatewayUnreachable), 1U);
  EXPECT_EQ(log.count(logging::Event::kGatewayLeft), 0U);
  b.status = 200;
  EXPECT_TRUE(run_until(loop, [&] { return is_known() && requested_at > before; }));
}

TEST_F(GatewaySetTest, AGatewayThatLeavesTheNameCountsUntilNothingIsOpenThere) {
  open();
  EXPECT_TRUE(until_open(3));
  resolve({a.address()});
  run_for(500ms);
  EXPECT_EQ(open_requests(), 3U);
  EXPECT_EQ(set->gateways().size(), 2U);
  set_overview(b, "b", 0);
  EXPECT_TRUE(until_open(1));
  EXPECT_TRUE(run_until(loop, [&] { return set->gateways().size() == 1; }));
  EXPECT_EQ(log.lines(logging::Event::kGatewayLeft).back(),
            "gateway_left address=" + b.address().text() + " cause=\"nothing is open there\"");
  const std::size_t asked = b.asked.size();
  run_for(200ms);
  EXPECT_EQ(b.asked.size(), asked);
  EXPECT_TRUE(is_known());
  // With its return nothing is counted again.
  resolve({a.address(), b.address()});
  EXPECT_TRUE(run_until(loop, [&] { return b.asked.size() > asked + 3; }));
  EXPECT_EQ(arrivals.size(), 2U);
}

TEST_F(GatewaySetTest, AGatewayThatLeavesTheNameAndDoesNotAnswerCountsUntilTheTimeout) {
  open();
  EXPECT_TRUE(until_open(3));
  resolve({a.address()});
  b.status = 503;
  run_for(200ms);
  EXPECT_EQ(open_requests(), 3U);
  EXPECT_TRUE(until_open(1));
  EXPECT_EQ(log.count(logging::Event::kGatewayLeft), 1U);
  EXPECT_TRUE(is_known());
}

TEST_F(GatewaySetTest, AGatewayThatHasDrainedAndEndsIsNotMissedWhileItsAddressIsListed) {
  open();
  EXPECT_TRUE(until_open(3));
  set_overview(b, "b", 0, 0, true);
  EXPECT_TRUE(until_open(1));
  EXPECT_EQ(set->gateways().size(), 2U) << "it may still take requests";
  b.status = 503;
  EXPECT_TRUE(run_until(loop, [&] { return set->gateways().size() == 1; }));
  EXPECT_TRUE(set->is_up());
  run_for(500ms);
  EXPECT_TRUE(is_known());
  EXPECT_EQ(log.count(logging::Event::kGatewayUnreachable), 0U);
  // A restart at the same address.
  b.status = 200;
  set_overview(b, "b2", 5);
  EXPECT_TRUE(until_open(6));
  EXPECT_EQ(arrivals.back(), "b2");
}

TEST_F(GatewaySetTest, TheOnlyGatewayCountsWhileItDrains) {
  resolve({b.address()});
  open();
  EXPECT_TRUE(until_open(2));
  set_overview(b, "b", 0, 0, true);
  EXPECT_TRUE(run_until(loop, [&] { return open_requests() == 0; }));
  EXPECT_TRUE(is_known());
  b.status = 503;
  run_for(100ms);
  EXPECT_TRUE(is_known()) << "a short restart is no loss";
  EXPECT_TRUE(run_until(loop, [&] { return !is_known(); }));
}

TEST_F(GatewaySetTest, ARestartedGatewayContinuesTheTotalsAndIsReadFromItsStart) {
  set_overview(a, "a", 1, 5);
  set_overview(b, "b", 2, 3);
  open();
  EXPECT_TRUE(until_open(3));
  EXPECT_EQ(set->state()->refused_total, 8U);
  set_overview(b, "b2", 7, 1);
  EXPECT_TRUE(until_open(8));
  EXPECT_EQ(set->state()->refused_total, 9U);
  EXPECT_TRUE(run_until(loop, [&] { return arrivals.size() == 3; }));
  EXPECT_EQ(log.count(logging::Event::kSeveralGateways), 0U);
}

TEST_F(GatewaySetTest, AnAddressThatTheNameGainsIsRead) {
  open();
  EXPECT_TRUE(until_open(3));
  resolve({a.address(), b.address(), c.address()});
  EXPECT_TRUE(until_open(7));
  EXPECT_TRUE(is_known());
  EXPECT_TRUE(run_until(loop, [&] { return arrivals.size() == 3; }));
}

TEST_F(GatewaySetTest, ANewGatewayThatFailsKeepsTheFleetFromActingAndMakesTheStateOld) {
  open();
  EXPECT_TRUE(until_open(3));
  c.status = 503;
  resolve({a.address(), b.address(), c.address()});
  EXPECT_TRUE(run_until(loop, [&] { return set->gateways().size() == 3; }));
  EXPECT_TRUE(is_known()) << "it has just come";
  const core::Instant before = requested_at;
  run_for(200ms);
  EXPECT_EQ(requested_at, before) << "what is open at c is unknown";
  EXPECT_TRUE(run_until(loop, [&] { return !is_known(); }));
}

TEST_F(GatewaySetTest, AnAddressAtWhichNothingListensIsNoGateway) {
  resolve({a.address(), *net::Address::parse("127.0.0.1", 1)});
  open();
  EXPECT_TRUE(until_open(1));
  run_for(500ms);
  EXPECT_TRUE(is_known());
  EXPECT_TRUE(set->is_up());
  EXPECT_EQ(set->gateways().size(), 1U);
}

TEST_F(GatewaySetTest, AGatewayWithTwoAddressesCountsOnce) {
  set_overview(b, "a", 1);
  open();
  EXPECT_TRUE(until_open(1));
  run_for(200ms);
  EXPECT_EQ(open_requests(), 1U);
  EXPECT_EQ(set->gateways().size(), 1U);
  EXPECT_EQ(arrivals.size(), 1U);
}

TEST_F(GatewaySetTest, ANameWithoutAnAddressIsAFailureThatIsNamed) {
  resolve({});
  open();
  EXPECT_TRUE(run_until(loop, [&] { return !set->is_awaited(); }));
  EXPECT_GT(answered, 0);
  EXPECT_FALSE(set->read_at());
  EXPECT_EQ(set->failure(), "gateways: the name has no address");
  EXPECT_EQ(log.count(logging::Event::kHostUnresolved), 1U);
  resolve({a.address()});
  EXPECT_TRUE(until_open(1));
}

}  // namespace
}  // namespace penstock::controller
