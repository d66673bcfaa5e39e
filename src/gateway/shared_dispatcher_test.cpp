#include "gateway/shared_dispatcher.h"

#include <gtest/gtest.h>

#include "dispatch/dispatcher_testing.h"
#include "gateway/documents.h"
#include "gateway/gateway_testing.h"

namespace penstock::gateway {
namespace {

using namespace std::chrono_literals;
using dispatch::testing::info_of;
constexpr core::Instant kNow = core::kStart + 100s;

ReplicaEndpoint replica_at(const std::string& url) {
  ReplicaEndpoint replica = replica_named("r1");
  replica.url = url;
  replica.addresses = {*net::Address::parse("127.0.0.1", 9)};
  return replica;
}

class SharedDispatcherTest : public ::testing::Test {
 protected:
  RoutedArrival arrive() { return dispatcher.arrive(info_of(400), listener, kNow); }

  GatewayOptions options = [] {
    GatewayOptions made;
    made.dispatch = dispatch::testing::options_for_tests();
    return made;
  }();
  dispatch::testing::TestListener listener;
  SharedDispatcher dispatcher{options, nullptr};
};

TEST_F(SharedDispatcherTest, AGrantHasTheAddressOfItsReplica) {
  dispatcher.set_replicas({replica_at("https://127.0.0.1:10/prefix")}, kNow);
  const RoutedArrival arrival = arrive();
  ASSERT_TRUE(arrival.grant);
  EXPECT_EQ(arrival.grant->target->id, "r1");
  EXPECT_EQ(arrival.grant->target->host_field, "127.0.0.1:10");
  EXPECT_EQ(arrival.grant->target->path_prefix, "/prefix");
  EXPECT_TRUE(arrival.grant->target->tls);
}

TEST_F(SharedDispatcherTest, IsReadyWhenSomeReplicaMayBeChosen) {
  dispatcher.set_models_complete(true);
  EXPECT_FALSE(dispatcher.ready(kNow));
  ReplicaEndpoint warming = replica_at("http://127.0.0.1:9");
  warming.phase = dispatch::ReplicaPhase::kWarming;
  dispatcher.set_replicas({warming}, kNow);
  EXPECT_FALSE(dispatcher.ready(kNow));
  ReplicaEndpoint other = replica_at("http://127.0.0.1:10");
  other.id = "r2";
  dispatcher.set_replicas({warming, other}, kNow);
  EXPECT_TRUE(dispatcher.ready(kNow));
  dispatcher.set_models_complete(false);
  EXPECT_TRUE(dispatcher.ready(kNow)) << "a replica that is added later does not make the gateway unready";
}

TEST_F(SharedDispatcherTest, IsReadyWithoutAReplicaIfTheFleetMayHaveNone) {
  dispatcher.set_models_complete(true);
  dispatch::ReloadableOptions may_have_none = options.dispatch;
  may_have_none.interactive.cold_start_queue_time = std::chrono::minutes{10};
  dispatcher.reconfigure(may_have_none);
  EXPECT_TRUE(dispatcher.ready(kNow));
}

TEST_F(SharedDispatcherTest, IsNotReadyBeforeTheModelsWereComplete) {
  dispatcher.set_models_complete(false);
  dispatcher.set_replicas({replica_at("http://127.0.0.1:9")}, kNow);
  EXPECT_FALSE(dispatcher.ready(kNow));
  EXPECT_FALSE(dispatcher.models_complete());
  dispatcher.set_models_complete(true);
  EXPECT_TRUE(dispatcher.ready(kNow));
}

TEST_F(SharedDispatcherTest, TheSameNameAtAnotherUrlIsAnotherReplica) {
  dispatcher.set_replicas({replica_at("http://127.0.0.1:9")}, kNow);
  const RoutedArrival before = arrive();
  ASSERT_TRUE(before.grant);
  dispatcher.set_replicas({replica_at("http://127.0.0.1:10")}, kNow);
  const RoutedArrival after = arrive();
  ASSERT_TRUE(after.grant);
  EXPECT_NE(after.grant->slot, before.grant->slot);
  EXPECT_EQ(after.grant->target->host_field, "127.0.0.1:10");
  const Overview seen = dispatcher.overview(kNow);
  EXPECT_EQ(seen.urls, (std::vector<std::string>{"http://127.0.0.1:9", "http://127.0.0.1:10"}))
      << "the first one still has a request";
}

TEST_F(SharedDispatcherTest, OfReplicasWithTheSameNameTheOneThatHasItComesLastAndHasTheSeries) {
  const auto url_at = [](int port) { return "http://127.0.0.1:" + std::to_string(port); };
  dispatcher.set_replicas({replica_at(url_at(9))}, kNow);
  const RoutedArrival first = arrive();
  dispatcher.set_replicas({replica_at(url_at(10))}, kNow);
  const RoutedArrival second = arrive();
  ASSERT_TRUE(first.grant && second.grant);
  dispatcher.ended(first.ticket, {}, kNow);  // Its slot is free.
  dispatcher.set_replicas({replica_at(url_at(11))}, kNow);
  const Overview seen = dispatcher.overview(kNow);
  EXPECT_EQ(seen.urls, (std::vector<std::string>{url_at(10), url_at(11)}));
  const std::string text = metrics_text(seen, {}, {});
  EXPECT_NE(text.find("penstock_replica_open_requests{replica=\"r1\",model=\"m\"} 0\n"), std::string::npos) << text;
  EXPECT_EQ(text.find("penstock_replica_open_requests{replica=\"r1\",model=\"m\"} 1\n"), std::string::npos) << text;
}

TEST_F(SharedDispatcherTest, ANewAddressOfTheSameUrlIsTheSameReplica) {
  dispatcher.set_replicas({replica_at("http://127.0.0.1:9")}, kNow);
  const RoutedArrival before = arrive();
  dispatcher.set_health("r1", dispatch::ReplicaHealth::kUnhealthy, kNow);
  ReplicaEndpoint moved = replica_at("http://127.0.0.1:9");
  moved.addresses = {*net::Address::parse("127.0.0.2", 9)};
  dispatcher.set_replicas({moved}, kNow);
  EXPECT_FALSE(dispatcher.ready(kNow)) << "it is as unhealthy as before";
  dispatcher.set_health("r1", dispatch::ReplicaHealth::kHealthy, kNow);
  const RoutedArrival after = arrive();
  ASSERT_TRUE(before.grant && after.grant);
  EXPECT_EQ(after.grant->slot, before.grant->slot);
  EXPECT_EQ(after.grant->target->addresses, moved.addresses);
}

TEST_F(SharedDispatcherTest, AReplicaThatIsListedAgainWithARequestInFlightIsCheckedAnew) {
  for (const auto health : {dispatch::ReplicaHealth::kUnhealthy, dispatch::ReplicaHealth::kSlow}) {
    dispatcher.set_models_complete(true);
    dispatcher.set_replicas({replica_at("http://127.0.0.1:9")}, kNow);
    const RoutedArrival before = arrive();
    ASSERT_TRUE(before.grant);
    dispatcher.set_health("r1", health, kNow);
    dispatcher.set_unresponsive("r1", true);
    dispatcher.set_replicas({}, kNow);
    EXPECT_TRUE(before.grant->target->unresponsive) << "its request may leave it";
    dispatcher.set_replicas({replica_at("http://127.0.0.1:9")}, kNow);
    EXPECT_FALSE(before.grant->target->unresponsive);
    const Overview seen = dispatcher.overview(kNow);
    ASSERT_EQ(seen.replicas.size(), 1U);
    EXPECT_TRUE(seen.replicas.front().healthy);
    EXPECT_TRUE(dispatcher.ready(kNow));
    const RoutedArrival after = arrive();
    ASSERT_TRUE(after.grant);
    EXPECT_EQ(after.grant->slot, before.grant->slot);
  }
}

TEST_F(SharedDispatcherTest, AReplicaThatReturnsFromAnotherUrlIsCheckedAnew) {
  dispatcher.set_replicas({replica_at("http://127.0.0.1:9")}, kNow);
  const RoutedArrival before = arrive();
  ASSERT_TRUE(before.grant);
  dispatcher.set_unresponsive("r1", true);
  dispatcher.set_replicas({replica_at("http://127.0.0.1:10")}, kNow);
  dispatcher.set_replicas({replica_at("http://127.0.0.1:9")}, kNow);
  const RoutedArrival after = arrive();
  ASSERT_TRUE(after.grant);
  EXPECT_EQ(after.grant->target->host_field, "127.0.0.1:9");
  EXPECT_FALSE(after.grant->target->unresponsive);
}

}  // namespace
}  // namespace penstock::gateway
