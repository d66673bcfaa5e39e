#include "connect/kubernetes/event_writer.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "connect/kubernetes/object_server_testing.h"

namespace penstock::connect {
namespace {

using Json = nlohmann::json;
using testing::ObjectServer;
using namespace std::chrono_literals;

const std::string kEventsPath = "/apis/events.k8s.io/v1/namespaces/prod/events";

ClusterEvent event(std::string note) {
  return {{"apps/v1", "Deployment", "prod", "chat"}, false, "ScaledUp", "Scale", std::move(note)};
}

class EventWriterTest : public ::testing::Test {
 protected:
  void open(EventWriter::Options options = {}) {
    options.instance = "planner-1";
    writer = std::make_unique<EventWriter>(
        loop, *KubernetesClient::start(loop, http, ObjectServer::options_for(server.address), {}), std::move(options),
        [this](const std::string& cause) { failures.push_back(cause); });
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

  net::Loop loop;
  ObjectServer server{loop};
  net::Client http{loop};
  std::vector<std::string> failures;
  std::unique_ptr<EventWriter> writer;
};

TEST_F(EventWriterTest, WritesAnEventWithAllThatTheApiDemands) {
  open();
  writer->write(event("3 -> 4 replicas"));
  until([&] { return !server.objects.empty(); });
  const auto& [path, object] = *server.objects.begin();
  EXPECT_TRUE(path.starts_with(kEventsPath + "/chat."));
  EXPECT_EQ(object["regarding"]["kind"], "Deployment");
  EXPECT_EQ(object["regarding"]["namespace"], object["metadata"]["namespace"]);
  EXPECT_EQ(object["reportingController"], "penstock-planner");
  EXPECT_EQ(object["reportingInstance"], "planner-1");
  EXPECT_EQ(object["type"], "Normal");
  EXPECT_EQ(object["eventTime"].get<std::string>().size(), std::string{"2026-11-22T13:26:21.000001Z"}.size());
}

TEST_F(EventWriterTest, RepeatsBecomeASeriesWhoseCountIsUpdatedNowAndThen) {
  EventWriter::Options options;
  options.series_interval = 100ms;
  open(options);
  for (int i = 0; i < 20; ++i) writer->write(event("held"));
  const auto count = [&] {
    return server.objects.empty() ? 0 : server.objects.begin()->second.value("/series/count"_json_pointer, 1);
  };
  until([&] { return count() == 20; });
  for (int i = 0; i < 20; ++i) writer->write(event("held"));
  until([&] { return count() == 40; });
  EXPECT_EQ(server.objects.size(), 1U);
  EXPECT_EQ(server.count("POST"), 1U);
  EXPECT_LE(server.count("PATCH"), 3U);
}

TEST_F(EventWriterTest, BeyondTheRateEventsAreDropped) {
  open();
  for (int i = 0; i < 200; ++i) writer->write(event(std::to_string(i)));
  until([&] { return server.objects.size() == 25; });
  EXPECT_EQ(writer->counters().dropped, 175U);
}

TEST_F(EventWriterTest, AFailureIsReportedOnceAndLosesOnlyTheEvent) {
  server.refuses = [](const std::string&, const std::string&) {
    return std::optional{ObjectServer::Refusal{403, "Forbidden"}};
  };
  open();
  writer->write(event("a"));
  writer->write(event("b"));
  until([&] { return writer->counters().failed == 2; });
  ASSERT_EQ(failures.size(), 1U);
  EXPECT_NE(failures[0].find("verbs: [\"create\"]"), std::string::npos) << failures[0];
  server.refuses = {};
  writer->write(event("a"));
  until([&] { return server.objects.size() == 1; });
}

}  // namespace
}  // namespace penstock::connect
