// The time between the start of a gateway and the moment when it knows the models of its replicas.
#include "gateway/gateway_testing.h"

namespace penstock::gateway {
namespace {

using namespace std::chrono_literals;

TEST(Gateway, RefusesNoUnknownModelForGoodBeforeTheModelsOfAllReplicasAreRead) {
  std::promise<void> may_answer;
  const std::shared_future<void> answered = may_answer.get_future().share();
  const net::testing::ScriptedServer engine{[&](Peer& peer, int) {
    while (const auto request = peer.read_request()) {
      if (!request->starts_with("GET ")) {
        peer.send(good_answer());
        continue;
      }
      if (request->starts_with("GET /v1/models")) answered.wait();
      peer.send(with_length("200 OK", R"({"data":[{"id":"m"},{"id":"late"}]})"));
    }
  }};
  ReplicaEndpoint replica = replica_named("r1");
  replica.url = "http://" + engine.address().text();
  replica.addresses = {engine.address()};
  GatewayOptions options = quiet_options();
  options.health_interval = 100ms;
  TestGateway gateway{{replica}, std::move(options)};
  const auto ask_for = [&](const std::string& model) {
    return ask(gateway, R"({"model":")" + model + R"(","messages":[{"role":"user","content":"hi"}]})");
  };
  const auto get_model = [&](const std::string& model) {
    RawClient client{gateway.address()};
    client.send(net::testing::get("/v1/models/" + model));
    return client.read_answer().status;
  };
  const auto early = ask_for("late");
  EXPECT_EQ(early.status, 503);
  EXPECT_EQ(field_in(early.head, "retry-after"), "1");
  EXPECT_NE(early.body.find("no_replica"), std::string::npos);
  EXPECT_EQ(get_model("late"), 503);
  EXPECT_EQ(ask_for("m").status, 200) << "the model of the configuration is known";
  EXPECT_EQ(gateway.admin_answer("/ready").status, 503);
  may_answer.set_value();
  EXPECT_TRUE(gateway.wait_for(R"("models_complete":true)"));
  EXPECT_EQ(ask_for("late").status, 200);
  EXPECT_EQ(ask_for("none").status, 404);
  EXPECT_EQ(get_model("none"), 404);
  EXPECT_EQ(gateway.admin_answer("/ready").status, 200);
}

}  // namespace
}  // namespace penstock::gateway
