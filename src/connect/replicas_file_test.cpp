#include "connect/replicas_file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace penstock::connect {
namespace {

std::string error_of(const std::string& text) {
  const auto read = read_replicas(text, "replicas.json");
  return read ? "none" : read.error().message();
}
std::string with_entry(const std::string& entry) { return "{\"version\":1,\"replicas\":[" + entry + "]}"; }

TEST(ReplicasFile, ReadsBackWhatItWrites) {
  std::vector<ReplicaEntry> entries{{"default-3", "http://127.0.0.1:9001"}, {"p-1", "https://[::1]:9002/base"}};
  entries[0].model = "penstock-sim";
  entries[0].weight = 0.1;
  entries[1].role = signals::Role::kPrefill;
  entries[1].state = ReplicaTraffic::kDraining;
  entries[1].kv_events = "tcp://127.0.0.1:6001";
  entries[1].block_tokens = 16;
  entries[1].kv_blocks = 32768;
  EXPECT_EQ(read_replicas(replicas_text(entries), "f"), entries);
  EXPECT_EQ(read_replicas(replicas_text({}), "f"), std::vector<ReplicaEntry>{});
}

TEST(ReplicasFile, AcceptsTheDocumentedExample) {
  const auto read = read_replicas(
      R"({"version":1,"replicas":[{"id":"default-3","url":"http://127.0.0.1:9001","model":"penstock-sim",
          "pool":"default","role":"aggregated","state":"warming","weight":1.0,"kv_events":"tcp://127.0.0.1:6001",
          "block_tokens":16,"kv_blocks":32768,"since":"noon","labels":{"a":[1]}}],"written_by":"a script"})",
      "f");
  ASSERT_TRUE(read) << read.error().message();
  ASSERT_EQ(read->size(), 1U);
  EXPECT_EQ(read->front().state, ReplicaTraffic::kWarming);
  EXPECT_EQ(read->front().kv_blocks, 32768U);
}

TEST(ReplicasFile, NeedsNoMoreThanAnIdAndAUrl) {
  const auto read = read_replicas(with_entry(R"({"id":"a","url":"http://h:1","kv_blocks":null})"), "f");
  ASSERT_TRUE(read) << read.error().message();
  EXPECT_EQ(read->front().state, ReplicaTraffic::kServing);
  EXPECT_EQ(read->front().pool, "default");
  EXPECT_FALSE(read->front().kv_blocks);
}

TEST(ReplicasFile, ErrorsNameTheLocation) {
  EXPECT_EQ(error_of(""), "replicas.json: invalid JSON at byte 1");
  EXPECT_EQ(error_of("[]"), "replicas.json: must be an object, is array");
  EXPECT_EQ(error_of("{\"version\":2,\"replicas\":[]}"),
            "replicas.json: version: is 2, but only 1 is known; use a newer penstock");
  EXPECT_EQ(error_of("{\"replicas\":[]}"), "replicas.json: version: is missing; it must be a whole number");
  EXPECT_EQ(error_of("{\"version\":1,\"replicas\":{}}"), "replicas.json: replicas: must be a list, is object");
  EXPECT_EQ(error_of("{\"version\":1,\"version\":1,\"replicas\":[]}"), "replicas.json: has \"version\" twice");
  EXPECT_EQ(error_of(with_entry("7")), "replicas.json: replicas[0]: must be an object, is number");
  EXPECT_EQ(error_of(with_entry("{\"id\":\"a\"}")), "replicas.json: replicas[0].url: is missing; it must be a text");
  EXPECT_EQ(error_of(with_entry(R"({"id":"a","url":"127.0.0.1:9"})")),
            "replicas.json: replicas[0].url: must be like http://127.0.0.1:9001, is \"127.0.0.1:9\"");
  EXPECT_EQ(error_of(with_entry(R"({"id":"","url":"http://h"})")), "replicas.json: replicas[0].id: must not be empty");
  EXPECT_EQ(error_of(with_entry(R"({"id":"a\nb","url":"http://h"})")),
            "replicas.json: replicas[0].id: has a control character");
  EXPECT_EQ(error_of(with_entry(R"({"id":"a","url":"http://h","state":"up"})")),
            "replicas.json: replicas[0].state: must be one of warming, serving, draining, is \"up\"");
  EXPECT_EQ(error_of(with_entry(R"({"id":"a","url":"http://h","weight":0})")),
            "replicas.json: replicas[0].weight: must be 0.001 to 1000, is 0");
  EXPECT_EQ(error_of(with_entry(R"({"id":"a","url":"http://h","block_tokens":1.5})")),
            "replicas.json: replicas[0].block_tokens: must be a whole number from 1 to 1000000, is 1.5");
  EXPECT_EQ(error_of(with_entry(R"({"id":"a","url":"http://h","kv_blocks":18446744073709551615})")),
            "replicas.json: replicas[0].kv_blocks: must be 1 to 9223372036854775807, is 18446744073709551615");
  EXPECT_EQ(error_of("{\"version\":1e999}"), "replicas.json: invalid JSON: a number is out of range");
}

TEST(ReplicasFile, RefusesTheSameReplicaTwice) {
  EXPECT_EQ(error_of(with_entry(R"({"id":"a","url":"http://h:1"},{"id":"a","url":"http://h:2"})")),
            "replicas.json: replicas[1].id: \"a\" is that of replicas[0] already; list each replica once");
  EXPECT_EQ(error_of(with_entry(R"({"id":"a","url":"http://h:1"},{"id":"b","url":"http://h:1"})")),
            "replicas.json: replicas[1].url: \"http://h:1\" is that of replicas[0] already; list each replica once");
}

TEST(ReplicasFile, HasLimits) {
  std::string deep(100'000, '[');
  EXPECT_NE(error_of(deep), "none");
  EXPECT_EQ(error_of("{\"a\":" + std::string(40, '[') + std::string(40, ']') + "}"),
            "replicas.json: is nested more than 16 levels deep");
  std::string many;
  for (int i = 0; i <= 10'000; ++i) many += (i == 0 ? "" : ",") + std::string("{}");
  EXPECT_EQ(error_of(with_entry(many)), "replicas.json: replicas: has 10001 elements; 10000 at most");
}

class ReplicasOnDisk : public ::testing::Test {
 protected:
  ReplicasOnDisk() { std::filesystem::create_directories(folder_); }
  ~ReplicasOnDisk() override { std::filesystem::remove_all(folder_); }
  std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / ("penstock-replicas-" + std::to_string(::getpid()));
};

TEST_F(ReplicasOnDisk, AreReplacedAsAWholeAndLeaveNothingBeside) {
  const std::string path = folder_ / "replicas.json";
  EXPECT_NE(load_replicas(path).error().message().find("there is no such file"), std::string::npos);
  const std::vector<ReplicaEntry> entries{{"a", "http://h:1"}};
  ASSERT_TRUE(save_replicas(path, {}));
  ASSERT_TRUE(save_replicas(path, entries));
  EXPECT_EQ(load_replicas(path), entries);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator{folder_}, {}), 1);
}

TEST_F(ReplicasOnDisk, StayAsTheyWereWhenTheDiskRefuses) {
  const auto refused = save_replicas(folder_ / "missing" / "replicas.json", {});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, core::ErrorCode::kEnvironment);
  EXPECT_NE(refused.error().message().find("create the folder first"), std::string::npos);
}

}  // namespace
}  // namespace penstock::connect
