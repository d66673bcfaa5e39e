#include "controller/leader_election.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "connect/kubernetes/object_server_testing.h"
#include "controller/live_testing.h"
#include "logging/log_testing.h"

namespace penstock::controller {
namespace {

using connect::testing::ObjectServer;

// A planner with the log of its own process.
struct Planner {
  Planner(net::Loop& loop, net::Client& client, const connect::KubernetesAccess& access, const std::string& identity)
      : events{loop, *connect::KubernetesClient::start(loop, client, options_with(access), {}), {identity}, {}},
        election{*LeaderElection::start(loop, client, {access, {"prod", "planner"}, identity, std::chrono::seconds{2}},
                                        events, log)} {
    election->on_change([this] { ++changes; });
  }
  static connect::KubernetesOptions options_with(const connect::KubernetesAccess& access) {
    connect::KubernetesOptions options;
    options.access = access;
    return options;
  }

  logging::testing::CapturedLog log;
  connect::EventWriter events;
  std::unique_ptr<LeaderElection> election;
  int changes = 0;
};

TEST(LeaderElection, LogsAndWritesEventsWhenTheLeaderChanges) {
  net::Loop loop;
  ObjectServer server{loop};
  net::Client client{loop};
  server.put("/apis/coordination.k8s.io/v1/namespaces/prod/leases/planner",
             {{"kind", "Lease"}, {"metadata", {{"name", "planner"}}}, {"spec", nlohmann::json::object()}});
  const connect::KubernetesAccess access = ObjectServer::options_for(server.address).access;
  Planner a{loop, client, access, "a"};
  EXPECT_TRUE(run_until(loop, [&] { return a.election->may_act(); }));
  Planner b{loop, client, access, "b"};
  EXPECT_TRUE(run_until(loop, [&] { return b.election->leader() == "a"; }));
  EXPECT_EQ(a.log.lines(logging::Event::kLeadershipAcquired),
            std::vector<std::string>{"leadership_acquired lease=prod/planner identity=a term=1"});
  EXPECT_EQ(b.log.lines(logging::Event::kLeaderChanged),
            std::vector<std::string>{"leader_changed lease=prod/planner leader=a"});
  bool ended = false;
  a.election->end([&] { ended = true; });
  EXPECT_FALSE(a.election->may_act());
  EXPECT_TRUE(run_until(loop, [&] { return ended && b.election->may_act(); }));
  EXPECT_EQ(a.log.count(logging::Event::kLeadershipLost), 0U) << "a clean end is no loss";
  EXPECT_GE(b.changes, 2);
  EXPECT_TRUE(run_until(loop, [&] { return server.count("POST /apis/events.k8s.io") == 2; }));
  const auto is_lease_event = [](const auto& each) {
    return each.second.value("reason", "") == "LeaderElection" && each.second["regarding"]["kind"] == "Lease";
  };
  EXPECT_EQ(std::count_if(server.objects.begin(), server.objects.end(), is_lease_event), 2);
}

}  // namespace
}  // namespace penstock::controller
