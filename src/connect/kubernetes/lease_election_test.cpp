#include "connect/kubernetes/lease_election.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "connect/kubernetes/api_time.h"
#include "connect/kubernetes/object_server_testing.h"

namespace penstock::connect {
namespace {

using Json = nlohmann::json;
using testing::ObjectServer;
using namespace std::chrono_literals;

const std::string kPath = "/apis/coordination.k8s.io/v1/namespaces/prod/leases/planner";

TEST(Lease, IsReadAndWritten) {
  const auto lease = parse_lease(Json::parse(
      R"({"kind":"Lease","apiVersion":"coordination.k8s.io/v1","metadata":{"name":"planner","resourceVersion":"5"},)"
      R"("spec":{"holderIdentity":"a","leaseDurationSeconds":15,"acquireTime":"2026-11-22T13:26:21.000001Z",)"
      R"("renewTime":"2026-11-22T13:26:31.000001Z","leaseTransitions":3}})"));
  ASSERT_TRUE(lease);
  EXPECT_EQ(lease->holder, "a");
  EXPECT_EQ(lease->duration, 15s);
  EXPECT_EQ(lease->transitions, 3);
  const ApiCall call = write_lease_call("prod", "planner", *lease);
  EXPECT_EQ(description_of(call), "update leases \"planner\" in namespace \"prod\"");
  const Json body = Json::parse(call.body);
  EXPECT_EQ(body["metadata"]["resourceVersion"], "5");
  EXPECT_EQ(body["spec"]["renewTime"], "2026-11-22T13:26:31.000001Z");
  EXPECT_FALSE(body["metadata"].contains("annotations"));

  // A Lease without a holder so far.
  const auto empty = parse_lease(Json::parse(R"({"kind":"Lease","metadata":{"resourceVersion":"6"},"spec":{}})"));
  ASSERT_TRUE(empty);
  EXPECT_EQ(empty->holder, "");
  EXPECT_EQ(empty->duration, std::nullopt);
  const ApiCall made = write_lease_call("prod", "planner", {});
  EXPECT_EQ(description_of(made), "create leases in namespace \"prod\"");
  EXPECT_FALSE(Json::parse(made.body)["spec"].contains("holderIdentity"));
  for (const char* text : {"{}", R"({"kind":"Lease"})", R"({"kind":"Pod","metadata":{"resourceVersion":"6"}})"})
    EXPECT_FALSE(parse_lease(Json::parse(text))) << text;
}

TEST(Lease, IsNamedByNamespaceAndName) {
  const auto name = parse_object_name("prod/penstock.planner");
  ASSERT_TRUE(name);
  EXPECT_EQ(*name, (ObjectName{"prod", "penstock.planner"}));
  for (const char* text :
       {"", "prod", "prod/", "/planner", "Prod/planner", "prod/Planner", "a.b/c", "prod/a/b", "prod/-a", "prod/a b"})
    EXPECT_FALSE(parse_object_name(text)) << text;
}

TEST(ApiTime, HasMicroseconds) {
  EXPECT_EQ(api_time_text(1'795'353'981'000'001), "2026-11-22T13:26:21.000001Z");
  EXPECT_EQ(api_time_text(0), "1970-01-01T00:00:00.000000Z");
}

// A planner on the loop of the test.
struct Planner {
  Planner(net::Loop& loop, const net::Address& address, const std::string& identity, core::Duration duration)
      : http{loop},
        client{*KubernetesClient::start(loop, http, ObjectServer::options_for(address), {})},
        election{loop,
                 *client,
                 {"prod", "planner"},
                 LeaseOptions{identity, duration},
                 {[this] { ++changes; }, [this](const std::string& cause) { failures.push_back(cause); },
                  [this] { return note; }}} {}

  net::Client http;
  std::unique_ptr<KubernetesClient> client;
  int changes = 0;
  std::string note;
  std::vector<std::string> failures;
  LeaseElection election;
};

class LeaseElectionTest : public ::testing::Test {
 protected:
  std::unique_ptr<Planner> start(const std::string& identity, core::Duration duration = 2s) {
    return std::make_unique<Planner>(loop, server.address, identity, duration);
  }
  void until(const std::function<bool()>& condition) {
    bool holds = false;
    const auto look = loop.every(5ms, [&] {
      holds = condition();
      if (holds) loop.stop();
    });
    const auto timeout = loop.after(30s, [&] { loop.stop(); });
    loop.run();
    loop.cancel(look);
    loop.cancel(timeout);
    EXPECT_TRUE(holds);
  }
  void put_free_lease() {
    server.put(kPath, {{"kind", "Lease"}, {"metadata", {{"name", "planner"}}}, {"spec", Json::object()}});
  }
  [[nodiscard]] std::string holder() const {
    const auto found = server.objects.find(kPath);
    return found == server.objects.end() ? "" : found->second["spec"].value("holderIdentity", std::string{});
  }

  net::Loop loop;
  ObjectServer server{loop};
};

TEST_F(LeaseElectionTest, OneLeadsAndTheOtherTakesOverAtACleanEnd) {
  put_free_lease();
  auto a = start("a");
  until([&] { return a->election.leads(); });
  auto b = start("b");
  until([&] { return b->election.holder() == "a"; });
  EXPECT_FALSE(b->election.leads());
  EXPECT_EQ(holder(), "a");
  bool ended = false;
  a->election.end([&] { ended = true; });
  EXPECT_FALSE(a->election.leads()) << "at once";
  until([&] { return ended; });
  until([&] { return b->election.leads(); });
  EXPECT_EQ(holder(), "b");
  EXPECT_EQ(b->election.term(), 1U);
  EXPECT_GE(b->changes, 2);
  EXPECT_EQ(server.objects[kPath]["spec"]["leaseDurationSeconds"], 2);
  EXPECT_TRUE(a->failures.empty());
  EXPECT_TRUE(b->failures.empty());
}

TEST_F(LeaseElectionTest, TheOthersReadTheNoteOfTheLeader) {
  put_free_lease();
  const auto written = [&] {
    return server.objects[kPath]["metadata"].value("annotations", Json::object()).value(kLeaseNote, std::string{});
  };
  auto a = start("a", 1s);
  a->note = "first";
  until([&] { return a->election.leads(); });
  auto b = start("b", 1s);
  b->note = "of the other";
  until([&] { return b->election.leader_note() == "first"; });
  EXPECT_TRUE(b->election.follows());
  EXPECT_FALSE(a->election.follows());
  EXPECT_EQ(a->election.leader_note(), "") << "its own";
  a->note = "second";
  a->election.publish_note();
  until([&] { return written() == "second"; });
  until([&] { return b->election.leader_note() == "second"; });
  // A leader that ends takes it away, and what one that is gone has noted is over with its time.
  bool ended = false;
  a->election.end([&] { ended = true; });
  until([&] { return ended && b->election.leads(); });
  until([&] { return written() == "of the other"; });
  auto c = start("c", 1s);
  until([&] { return c->election.leader_note() == "of the other"; });
  b.reset();
  until([&] { return c->election.leads(); });
  EXPECT_EQ(c->election.leader_note(), "");
}

TEST_F(LeaseElectionTest, ALeaderThatIsGoneIsReplaced) {
  put_free_lease();
  auto a = start("a", 1s);
  until([&] { return a->election.leads(); });
  auto b = start("b", 1s);
  until([&] { return b->election.holder() == "a"; });
  a.reset();
  until([&] { return b->election.leads(); });
  EXPECT_EQ(server.objects[kPath]["spec"]["leaseTransitions"], 2);
}

TEST_F(LeaseElectionTest, ALeaderThatCannotRenewStopsActing) {
  put_free_lease();
  auto a = start("a", 1s);
  until([&] { return a->election.leads(); });
  server.is_silent = true;
  until([&] { return !a->election.leads(); });
  ASSERT_FALSE(a->failures.empty());
  EXPECT_NE(a->failures.front().find("no answer in 0.2 s"), std::string::npos) << a->failures.front();
  server.is_silent = false;
  until([&] { return a->election.leads(); });
  EXPECT_EQ(a->election.term(), 1U) << "no other planner led";
}

TEST_F(LeaseElectionTest, AWriteWithoutAnAnswerMayHaveBeenCarriedOut) {
  put_free_lease();
  auto a = start("a");
  server.loses_answers = true;
  until([&] { return holder() == "a"; });
  EXPECT_FALSE(a->election.leads());
  server.loses_answers = false;
  until([&] { return a->election.leads(); });
}

TEST_F(LeaseElectionTest, AMissingPermissionIsReportedOnce) {
  server.refuses = [](const std::string&, const std::string&) {
    return std::optional{ObjectServer::Refusal{403, "Forbidden"}};
  };
  auto a = start("a", 500ms);
  until([&] { return server.requests.size() >= 4; });
  ASSERT_EQ(a->failures.size(), 1U);
  EXPECT_NE(a->failures[0].find("add to the Role: {apiGroups: [\"coordination.k8s.io\"], resources: [\"leases\"], "
                                "verbs: [\"get\"]}"),
            std::string::npos)
      << a->failures[0];
}

TEST_F(LeaseElectionTest, ALeaseThatIsMissingIsCreated) {
  auto a = start("a", 1s);
  until([&] { return holder() == "a"; });
  EXPECT_FALSE(a->election.leads());
  until([&] { return a->election.leads(); });
  EXPECT_EQ(server.objects[kPath]["spec"]["leaseTransitions"], 0);
}

TEST(LeaseIdentity, IsNewForEachProcess) { EXPECT_NE(new_lease_identity(), new_lease_identity()); }

}  // namespace
}  // namespace penstock::connect
