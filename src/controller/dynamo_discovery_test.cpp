#include "controller/dynamo_discovery.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "controller/live_testing.h"

namespace penstock::controller {
namespace {

using namespace std::chrono_literals;

// The answer of etcd 3.4 to a range request, with one worker of Dynamo 1.6.1, shortened.
constexpr const char* kRange =
    R"({"header":{"revision":"9"},"kvs":[{"key":"djEvbWRjL24vYy9lLzE=","version":"1","value":")"
    "eyJuYW1lc3BhY2UiOiJuIiwiY29tcG9uZW50IjoiYyIsImluc3RhbmNlX2lkIjo3LCJjYXJkX2pzb24iOnsiZGlzcGxheV9uYW1lIjoibSJ9fQ=="
    R"("}],"count":"1"})";

TEST(DynamoDiscovery, ASourceIsAFolderOrEtcd) {
  EXPECT_EQ(DynamoDiscovery::parse("file:/var/kv")->folder, "/var/kv");
  EXPECT_EQ(DynamoDiscovery::parse("etcd:http://etcd.example:2379")->etcd->host, "etcd.example");
  for (const char* bad : {"", "file:", "/var/kv", "etcd:", "etcd:https://a:1", "nats:http://a:1"})
    EXPECT_FALSE(DynamoDiscovery::parse(bad)) << bad;
}

TEST(DynamoDiscovery, ReadsTheRangesOfEtcd) {
  connect::DynamoRecords records;
  ASSERT_TRUE(add_etcd_range(kRange, records));
  ASSERT_EQ(records.workers.size(), 1U) << records.rejection;
  EXPECT_EQ(records.workers.front().id, 7U);
  EXPECT_TRUE(add_etcd_range(R"({"header":{}})", records)) << "no such keys";
  EXPECT_FALSE(add_etcd_range("no JSON", records));
  EXPECT_FALSE(add_etcd_range(R"({"kvs":7})", records));
}

TEST(DynamoDiscovery, AMissingFolderIsReportedOnceAndReadOnceItIsThere) {
  net::Loop loop;
  net::Client client{loop};
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("dynamo-discovery-" + std::to_string(getpid()));
  int reads = 0;
  std::vector<std::string> causes;
  DynamoDiscovery discovery{loop,
                            client,
                            *DynamoDiscovery::parse("file:" + folder.string()),
                            [&](const connect::DynamoRecords&) { ++reads; },
                            [&](const std::string& cause) { causes.push_back(cause); },
                            10ms};
  EXPECT_FALSE(reads > 0);
  ASSERT_TRUE(run_until(loop, [&] { return !causes.empty(); }));
  std::filesystem::create_directories(folder);
  EXPECT_TRUE(run_until(loop, [&] { return reads > 3; }));
  EXPECT_EQ(causes.size(), 1U);
  std::filesystem::remove_all(folder);
}

TEST(DynamoDiscovery, AnEtcdThatDoesNotAnswerIsReported) {
  net::Loop loop;
  net::Client client{loop};
  std::vector<std::string> causes;
  DynamoDiscovery discovery{loop,
                            client,
                            *DynamoDiscovery::parse("etcd:http://127.0.0.1:1"),
                            [](const connect::DynamoRecords&) {},
                            [&](const std::string& cause) { causes.push_back(cause); },
                            10ms};
  EXPECT_TRUE(run_until(loop, [&] { return !causes.empty(); }));
}

}  // namespace
}  // namespace penstock::controller
