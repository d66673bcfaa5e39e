#include "dashboard/dashboard.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "controller/live_testing.h"
#include "logging/log_testing.h"
#include "net/client_testing.h"
#include "net/fetch.h"

namespace penstock::dashboard {
namespace {

using namespace controller;

using namespace std::chrono_literals;

class BoardTest : public testing::Test {
 protected:
  BoardTest() {
    DaemonOptions options;
    options.pools.resize(1);
    options.pools[0].name = "chat";
    options.gateways.hosts = {{"127.0.0.1", gateway.address().port()}};
    options.gateways.interval = 50ms;
    options.point_interval = 100ms;
    daemon.emplace(loop, client, fleet, policy, std::move(options), log, nullptr);
    const int listening = *net::listen_on(net::Address{}, false);
    address = net::local_address(listening);
    dashboard.emplace(loop, listening, *daemon, "1.2.3");
  }
  net::FetchAnswer get(std::string target, std::string method = "GET") {
    net::FetchRequest request;
    request.call.address = address;
    request.method = std::move(method);
    request.host_field = address.text();
    request.target = std::move(target);
    net::FetchAnswer got;
    net::fetch(client, std::move(request), [&](core::Result<net::FetchAnswer> answer) {
      EXPECT_TRUE(answer);
      if (answer) got = *std::move(answer);
      loop.stop();
    });
    loop.run();
    return got;
  }

  net::Loop loop;
  ScriptedGateway gateway{loop};
  net::Client client{loop};
  ScriptedPolicy policy;
  ScriptedFleet fleet;
  logging::testing::CapturedLog log;
  std::optional<PlannerDaemon> daemon;
  net::Address address;
  std::optional<Dashboard> dashboard;
};

class RecordedBoardTest : public BoardTest {
 protected:
  RecordedBoardTest() {
    std::string made = testing::TempDir() + "recorderXXXXXX";
    EXPECT_NE(::mkdtemp(made.data()), nullptr);
    folder = made;
  }
  ~RecordedBoardTest() override {
    dashboard.reset();
    recorder.reset();
    std::filesystem::remove_all(folder);
  }
  // An hour of the wall clock passes in a second.
  void record(core::Duration report_interval) {
    RecorderOptions options;
    options.history_file = folder / "history.jsonl";
    options.report_folder = folder / "reports" / "of-chat";
    options.report_interval = report_interval;
    options.point_interval = 50ms;
    options.unix_s = [this] { return 1'790'000'000.0 + 3600.0 * core::to_seconds(loop.now()); };
    dashboard.reset();
    recorder.emplace(loop, *daemon, "1.2.3", std::move(options), log);
    const int listening = *net::listen_on(net::Address{}, false);
    address = net::local_address(listening);
    dashboard.emplace(loop, listening, *daemon, "1.2.3", net::AccessOptions{}, nullptr, DashboardContent::kAll,
                      &*recorder);
  }
  std::vector<std::filesystem::path> reports() const {
    std::vector<std::filesystem::path> found;
    if (!std::filesystem::exists(folder / "reports" / "of-chat")) return found;
    for (const auto& entry : std::filesystem::directory_iterator{folder / "reports" / "of-chat"})
      found.push_back(entry.path());
    return found;
  }
  // How many points a document has.
  static std::size_t points_of(std::string_view text) {
    std::size_t found = 0;
    for (std::size_t at = text.find("\"at_s\""); at != std::string_view::npos; at = text.find("\"at_s\"", at + 1))
      ++found;
    return found;
  }

  std::filesystem::path folder;
  std::optional<Recorder> recorder;
};

TEST_F(RecordedBoardTest, ServesTheHistoryAndAReportOfIt) {
  record(0ms);
  EXPECT_TRUE(run_until(loop, [&] { return points_of(recorder->history_document()) >= 3; }));
  EXPECT_GE(points_of(get("/api/history").body), 3U);
  const net::FetchAnswer report = get("/report");
  EXPECT_EQ(report.status, 200);
  EXPECT_NE(report.body.find("<script type=\"application/json\" id=\"report\">{\"unix_s\":179"), std::string::npos);
  EXPECT_NE(report.body.find("\"version\":\"1.2.3\""), std::string::npos);
  EXPECT_TRUE(reports().empty()) << "nothing is written without an interval";
}

TEST_F(RecordedBoardTest, WritesAReportAfterEachIntervalAndBeginsAnew) {
  record(1h);
  EXPECT_TRUE(run_until(loop, [&] { return reports().size() >= 2; }));
  EXPECT_LT(points_of(recorder->history_document()), 40U);
  EXPECT_TRUE(reports()[0].filename().string().starts_with("penstock-2026-09-2")) << reports()[0];
  EXPECT_EQ(reports()[0].extension(), ".html");
}

TEST_F(RecordedBoardTest, TheNextPlannerContinuesTheHistory) {
  record(0ms);
  EXPECT_TRUE(run_until(loop, [&] { return points_of(recorder->history_document()) >= 3; }));
  const std::size_t before = points_of(recorder->history_document());
  record(0ms);
  EXPECT_EQ(points_of(recorder->history_document()), before);
  ASSERT_TRUE(recorder->write_report());
  EXPECT_EQ(recorder->history_document(), "[]");
  EXPECT_EQ(reports().size(), 1U);
}

TEST_F(RecordedBoardTest, AFolderThatCannotBeWrittenIsNamedOnceAndLosesNothing) {
  std::ofstream{folder / "reports"} << "a file";
  record(1h);
  EXPECT_TRUE(run_until(loop, [&] { return log.count(logging::Event::kFileUnwritable) > 0; }));
  EXPECT_TRUE(run_until(loop, [&, points = points_of(recorder->history_document())] {
    return points_of(recorder->history_document()) > points + 3;
  }));
  EXPECT_EQ(log.count(logging::Event::kFileUnwritable), 1U);
}

TEST_F(BoardTest, ServesThePageWithAllItsPartsInIt) {
  const net::FetchAnswer page = get("/");
  EXPECT_EQ(page.status, 200);
  EXPECT_NE(page.body.find("<!doctype html>"), std::string::npos);
  for (const char* mark : {"/*STYLE*/", "/*SCRIPTS*/", "/*LIBRARY*/"})
    EXPECT_EQ(page.body.find(mark), std::string::npos) << mark;
}

TEST_F(BoardTest, ServesDocumentsMetricsAndHealth) {
  EXPECT_NE(get("/api/state").body.find(R"("version":"1.2.3")"), std::string::npos);
  EXPECT_EQ(get("/api/points").body, "[]");
  EXPECT_EQ(get("/health").body, "ok\n");
  EXPECT_EQ(get("/metrics").status, 200);
  EXPECT_TRUE(run_until(loop, [&] { return policy.decided > 0; }));
  EXPECT_NE(get("/metrics").body.find("# TYPE"), std::string::npos);
  EXPECT_EQ(get("/metrics/engines").status, 200);
}

TEST_F(BoardTest, RefusesUnknownPaths) {
  EXPECT_EQ(get("/nothing").status, 404);
  EXPECT_EQ(get("/api/state", "POST").status, 405);
}

TEST_F(BoardTest, AnswersHeadWithTheFieldsOfGetAndNothingMore) {
  for (const char* path : {"/", "/api/state", "/api/points", "/metrics", "/health", "/events"}) {
    const net::FetchAnswer head = get(path, "HEAD");
    EXPECT_EQ(head.status, 200) << path;
    EXPECT_EQ(head.body, "") << path;
    EXPECT_EQ(get(path, "DELETE").status, 405) << path;
  }
  EXPECT_EQ(get("/nothing", "HEAD").status, 404);
  EXPECT_TRUE(run_until(loop, [&, decided = policy.decided] { return policy.decided > decided + 20; }));
}

TEST_F(BoardTest, SendsStatesAndPointsAsTheyArrive) {
  net::testing::Recorder recorder{loop};
  const std::string head = "GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n";
  net::Call& call = client.call(net::testing::to(address), head, {}, recorder);
  EXPECT_TRUE(run_until(loop, [&] { return recorder.body.find("event: point\n") != std::string::npos; }));
  EXPECT_EQ(recorder.content_type, "text/event-stream");
  EXPECT_NE(recorder.body.find("event: points\ndata: ["), std::string::npos);
  const std::size_t first = recorder.body.find("event: state\ndata: {");
  EXPECT_NE(first, std::string::npos);
  EXPECT_NE(recorder.body.find("event: state\ndata: {", first + 1), std::string::npos);
  EXPECT_TRUE(recorder.body.ends_with("\n\n"));
  call.cancel();
}

TEST_F(BoardTest, AViewerThatLeavesIsForgotten) {
  for (int i = 0; i < 5; ++i) {
    net::testing::Recorder recorder{loop};
    const std::string head = "GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n";
    net::Call& call = client.call(net::testing::to(address), head, {}, recorder);
    EXPECT_TRUE(run_until(loop, [&] { return !recorder.body.empty(); }));
    call.cancel();
  }
  EXPECT_TRUE(run_until(loop, [&, decided = policy.decided] { return policy.decided > decided + 20; }));
  EXPECT_EQ(get("/health").status, 200);
}

// Two deployments of one planner.
class TwoDeploymentsTest : public testing::Test {
 protected:
  TwoDeploymentsTest() {
    const std::pair<const char*, const char*> names[] = {{"chat", "chat-8b"}, {"mail", "mail-8b"}};
    for (std::size_t i = 0; i < 2; ++i) {
      DaemonOptions options;
      options.deployment = names[i].first;
      options.model = names[i].second;
      options.pools.resize(1);
      options.pools[0].name = names[i].first;
      options.gateways.hosts = {{"127.0.0.1", gateway.address().port()}};
      options.gateways.interval = 50ms;
      options.on_hold = [this] { ++held; };
      daemons[i].emplace(loop, client, fleets[i], policies[i], std::move(options), log, nullptr);
    }
    const int listening = *net::listen_on(net::Address{}, false);
    address = net::local_address(listening);
    dashboard.emplace(loop, listening, *daemons[0], "1.2.3");
    dashboard->add(*daemons[1], nullptr);
  }
  net::FetchAnswer get(std::string target) {
    net::FetchAnswer got;
    net::fetch(client, net::request_to(address, std::move(target), 10s), [&](core::Result<net::FetchAnswer> answer) {
      EXPECT_TRUE(answer);
      if (answer) got = *std::move(answer);
      loop.stop();
    });
    loop.run();
    return got;
  }

  net::Loop loop;
  ScriptedGateway gateway{loop};
  net::Client client{loop};
  ScriptedPolicy policies[2];
  ScriptedFleet fleets[2];
  logging::testing::CapturedLog log;
  int held = 0;
  std::optional<PlannerDaemon> daemons[2];
  net::Address address;
  std::optional<Dashboard> dashboard;
};

TEST_F(TwoDeploymentsTest, TheQueryChoosesOne) {
  EXPECT_TRUE(run_until(loop, [&] { return policies[0].decided > 0 && policies[1].decided > 0; }));
  const auto has = [](const net::FetchAnswer& answer, std::string_view text) {
    return answer.status == 200 && answer.body.find(text) != std::string::npos;
  };
  EXPECT_TRUE(has(get("/api/state"), R"("deployment":"chat","deployments":["chat","mail"],"model":"chat-8b")"));
  EXPECT_TRUE(has(get("/api/state?deployment=mail"), R"("deployment":"mail")"));
  EXPECT_EQ(get("/api/state?deployment=fax").status, 404);
  EXPECT_EQ(get("/api/points?deployment=mail").status, 200);
}

TEST_F(TwoDeploymentsTest, MetricsOfAllHaveTheLabelModel) {
  EXPECT_TRUE(run_until(loop, [&] { return policies[0].decided > 0 && policies[1].decided > 0; }));
  const std::string metrics = get("/metrics").body;
  for (const char* series : {R"(penstock_min_replicas{model="chat-8b",pool="chat"})",
                             R"(penstock_min_replicas{model="mail-8b",pool="mail"})"})
    EXPECT_NE(metrics.find(series), std::string::npos) << series;
  const std::string_view type = "# TYPE penstock_min_replicas gauge";
  EXPECT_EQ(metrics.find(type, metrics.find(type) + 1), std::string::npos) << "a family comes once";
}

TEST_F(TwoDeploymentsTest, TheEventsAreThoseOfTheChosenOne) {
  net::testing::Recorder recorder{loop};
  const std::string head = "GET /events?deployment=mail HTTP/1.1\r\nHost: localhost\r\n\r\n";
  net::Call& call = client.call(net::testing::to(address), head, {}, recorder);
  EXPECT_TRUE(run_until(loop, [&] {
    const std::size_t first = recorder.body.find("event: state\n");
    return first != std::string::npos && recorder.body.find("event: state\n", first + 1) != std::string::npos;
  }));
  EXPECT_EQ(recorder.body.find(R"("deployment":"chat")"), std::string::npos);
  EXPECT_NE(recorder.body.find(R"("deployment":"mail")"), std::string::npos);
  call.cancel();
}

TEST_F(TwoDeploymentsTest, AHoldIsReported) {
  EXPECT_TRUE(run_until(loop, [&] { return policies[0].decided > 0; }));
  const int before = held;
  gateway.status = 500;
  EXPECT_TRUE(run_until(loop, [&] { return held > before; }));
}

}  // namespace
}  // namespace penstock::dashboard
