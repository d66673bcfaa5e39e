#include "connect/dynamo/records.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace penstock::connect {
namespace {

// As Dynamo 1.6.1 writes them, without fields that are not read.
constexpr std::string_view kWorkerKey = "v1/mdc/dynamo/backend/generate/cc1bb6578bce6a5d";
constexpr std::string_view kWorker =
    R"({"type":"Model","namespace":"dynamo","component":"backend","endpoint":"generate",)"
    R"("instance_id":14707549495232457309,"card_json":{"display_name":"m","slug":"m","context_length":0,)"
    R"("kv_cache_block_size":16,"runtime_config":{"context_length":0,"total_kv_blocks":8192,"max_num_seqs":256,)"
    R"("max_num_batched_tokens":8192}}})";
constexpr std::string_view kChannelKey =
    "v1/event_channels/namespace/dynamo/component/backend/endpoint/generate/topic/forward-pass-metrics/882db01aa64c8";
constexpr std::string_view kChannel =
    R"({"type":"EventChannel","scope":{"kind":"endpoint","endpoint":{"namespace":"dynamo","component":"backend",)"
    R"("name":"generate"}},"topic":"forward-pass-metrics","instance_id":2395676951078088,)"
    R"("transport":{"kind":"Zmq","config":{"endpoint":"tcp://127.0.0.1:41475"}}})";

constexpr std::string_view kNats = "nats://127.0.0.1:4222";

DynamoRecords read(std::string_view key, std::string_view json) {
  DynamoRecords records;
  add_dynamo_record(key, json, records);
  return records;
}

TEST(DynamoRecords, AWorkerHasTheCapacityOfItsModelCard) {
  const DynamoRecords records = read(kWorkerKey, kWorker);
  ASSERT_EQ(records.workers.size(), 1U) << records.rejection;
  const DynamoWorker& worker = records.workers.front();
  EXPECT_EQ(worker.id, 14707549495232457309U);
  EXPECT_EQ(worker.model, "m");
  EXPECT_EQ(worker.component, "dynamo/backend");
  EXPECT_EQ(worker.kv_tokens, 8192U * 16);
  EXPECT_EQ(worker.block_tokens, 16U);
  EXPECT_EQ(worker.max_sequences, 256U);
  EXPECT_EQ(worker.max_batched_tokens, 8192U);
  EXPECT_FALSE(worker.context_tokens) << "0 is not a context length";
}

TEST(DynamoRecords, EndpointsAreThoseOfTheModelsComponents) {
  DynamoRecords records = read(kWorkerKey, kWorker);
  add_dynamo_record(kChannelKey, kChannel, records);
  add_dynamo_record("v1/event_channels/other",
                    R"({"scope":{"kind":"endpoint","endpoint":{"namespace":"dynamo","component":"other","name":"g"}},)"
                    R"("topic":"forward-pass-metrics","transport":{"kind":"Zmq","config":{"endpoint":"tcp://a:1"}}})",
                    records);
  EXPECT_EQ(records.endpoints_of("m", kNats, DynamoTopic::kForwardPass),
            std::vector<std::string>{"tcp://127.0.0.1:41475"});
  EXPECT_TRUE(records.endpoints_of("another", kNats, DynamoTopic::kForwardPass).empty());
  EXPECT_EQ(records.rejection, "");
}

TEST(DynamoRecords, EventsAndBlocksInUseOfTheKvCacheAreOneTopic) {
  DynamoRecords records = read(kWorkerKey, kWorker);
  add_dynamo_record(kChannelKey, kChannel, records);
  for (const char* topic : {"kv-events", "kv_metrics", "active_sequences_events"})
    add_dynamo_record(std::string{"v1/event_channels/"} + topic,
                      fmt::format(R"({{"scope":{{"kind":"endpoint","endpoint":{{"namespace":"dynamo",)"
                                  R"("component":"backend","name":"generate"}}}},"topic":"{}",)"
                                  R"("transport":{{"kind":"Zmq","config":{{"endpoint":"tcp://{}:1"}}}}}})",
                                  topic, topic),
                      records);
  EXPECT_EQ(records.endpoints_of("m", kNats, DynamoTopic::kKvCache),
            (std::vector<std::string>{"tcp://kv-events:1", "tcp://kv_metrics:1"}));
  EXPECT_EQ(records.endpoints_of("m", kNats, DynamoTopic::kForwardPass),
            std::vector<std::string>{"tcp://127.0.0.1:41475"});
}

TEST(DynamoRecords, ReadsAChannelOfVersion13) {
  DynamoRecords records = read(kWorkerKey, kWorker);
  add_dynamo_record("v1/event_channels/dynamo/backend/forward-pass-metrics/7",
                    R"({"type":"EventChannel","namespace":"dynamo","component":"backend",)"
                    R"("topic":"forward-pass-metrics","instance_id":7,)"
                    R"("transport":{"kind":"Zmq","config":{"endpoint":"tcp://10.99.0.1:37567"}}})",
                    records);
  EXPECT_EQ(records.endpoints_of("m", kNats, DynamoTopic::kForwardPass),
            std::vector<std::string>{"tcp://10.99.0.1:37567"});
}

TEST(DynamoRecords, AChannelOverNatsIsASubjectOfTheServer) {
  DynamoRecords records = read(kWorkerKey, kWorker);
  for (const char* publisher : {"15044e15d9cbaf", "15044e15d9cbb0"})
    add_dynamo_record(std::string{"v1/event_channels/"} + publisher,
                      R"({"type":"EventChannel","scope":{"kind":"endpoint","endpoint":{"namespace":"dynamo",)"
                      R"("component":"backend","name":"generate"}},"topic":"forward-pass-metrics",)"
                      R"("instance_id":5915707931478959,"transport":{"kind":"Nats","config":)"
                      R"({"subject_prefix":"namespace.dynamo.component.backend.endpoint.generate"}}})",
                      records);
  EXPECT_EQ(records.endpoints_of("m", kNats, DynamoTopic::kForwardPass),
            std::vector<std::string>{"nats://127.0.0.1:4222/namespace.dynamo.component.backend.endpoint.generate."
                                     "forward-pass-metrics"});
  EXPECT_EQ(records.rejection, "");
  add_dynamo_record("v1/event_channels/y",
                    R"({"topic":"forward-pass-metrics","transport":{"kind":"Nats","config":{}}})", records);
  EXPECT_NE(records.rejection, "") << "a prefix is missing";
}

TEST(DynamoRecords, OtherTopicsTransportsAndKeysAreIgnored) {
  DynamoRecords records =
      read("v1/event_channels/x",
           R"({"topic":"active_sequences_events","transport":{"kind":"Zmq","config":{"endpoint":"tcp://a:1"}}})");
  add_dynamo_record("v1/event_channels/y",
                    R"({"topic":"forward-pass-metrics","transport":{"kind":"Kafka","config":{}}})", records);
  add_dynamo_record("v1/instances/z", "no JSON", records);
  EXPECT_TRUE(records.channels.empty());
  EXPECT_EQ(records.rejection, "");
}

TEST(DynamoRecords, AMalformedRecordIsLeftOutWithItsCause) {
  for (const std::string_view json :
       {"", "{", "[]", R"({"instance_id":"7","card_json":{"display_name":"m"}})", R"({"instance_id":7})"}) {
    const DynamoRecords records = read(kWorkerKey, json);
    EXPECT_TRUE(records.workers.empty()) << json;
    EXPECT_TRUE(records.rejection.starts_with(kWorkerKey)) << records.rejection;
  }
}

TEST(DynamoRecords, ReadsAFolderWhoseFilesAreKeys) {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("dynamo-records-" + std::to_string(getpid()));
  EXPECT_FALSE(read_dynamo_folder(folder.string()));
  std::filesystem::create_directories(folder / "v1/mdc");
  std::filesystem::create_directories(folder / "v1/event_channels");
  EXPECT_TRUE(read_dynamo_folder(folder.string())->workers.empty());
  std::ofstream{folder / "v1/mdc/dynamo%2Fbackend%2Fgenerate%2Fcc1bb6578bce6a5d"} << kWorker;
  std::ofstream{folder / "v1/event_channels/namespace%2Fdynamo"} << kChannel;
  const auto records = read_dynamo_folder(folder.string());
  ASSERT_TRUE(records);
  EXPECT_EQ(records->workers.size(), 1U);
  EXPECT_EQ(records->endpoints_of("m", kNats, DynamoTopic::kForwardPass).size(), 1U);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace penstock::connect
