#include "telemetry/dynamo_kv.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "telemetry/golden_messages_testing.h"

namespace penstock::telemetry {
namespace {

constexpr std::uint64_t kWorker = 14125413811407687658U;

core::Result<WorkerKvMessage> read(std::string_view golden) {
  const std::string frame = from_hex(golden);
  const auto envelope = decode_event_frame(frame);
  if (!envelope) return tl::make_unexpected(envelope.error());
  return decode_worker_kv(*envelope);
}

std::string packed(const nlohmann::json& value) {
  const std::vector<std::uint8_t> bytes = nlohmann::json::to_msgpack(value);
  return {bytes.begin(), bytes.end()};
}

nlohmann::json event(const nlohmann::json& data) {
  return {{"worker_id", 5}, {"storage_tier", "device"}, {"event", {{"event_id", 1}, {"data", data}, {"dp_rank", 1}}}};
}

std::string fault_of(const nlohmann::json& value) {
  const auto read = decode_router_events(packed(value));
  return read ? std::string{} : read.error().what;
}

WorkerKvMessage message(std::uint64_t sequence, std::uint64_t publisher = 1) {
  return {publisher, sequence, {{{kWorker, 0}, 2, 1}}, {}};
}

TEST(DynamoKv, ReadsTheEventsOfDynamo161) {
  const auto stored = read(kKvStoredFrame), removed = read(kKvRemovedFrame);
  ASSERT_TRUE(stored) << stored.error().message();
  ASSERT_TRUE(removed) << removed.error().message();
  EXPECT_EQ(stored->changes, (std::vector<KvChanges>{{{kWorker, 0}, 1, 0}}));
  EXPECT_EQ(removed->changes, (std::vector<KvChanges>{{{kWorker, 0}, 0, 1}}));
  EXPECT_FALSE(stored->used_blocks);
}

TEST(DynamoKv, ReadsTheBlocksInUseOfDynamo161) {
  const auto used = read(kKvUsedFrame);
  ASSERT_TRUE(used) << used.error().message();
  ASSERT_TRUE(used->used_blocks);
  EXPECT_EQ(used->used_blocks->first, (WorkerRank{kWorker, 0}));
  EXPECT_EQ(used->used_blocks->second, 12U);
  EXPECT_TRUE(used->changes.empty());
}

TEST(DynamoKv, AnEventOfVersion13StandsAlone) {
  const auto changes = decode_router_events(packed(event({{"removed", {{"block_hashes", {1, 2, 3}}}}})));
  ASSERT_TRUE(changes) << changes.error().message();
  EXPECT_EQ(*changes, (std::vector<KvChanges>{{{5, 1}, 0, 3}}));
}

TEST(DynamoKv, EventsOfOtherTiersAndKindsChangeNothing) {
  nlohmann::json host = event({{"stored", {{"blocks", {{{"block_hash", 1}}}}}}});
  host["storage_tier"] = "host_pinned";
  const auto changes = decode_router_events(packed({host, event("cleared"), event({{"moved", 7}})}));
  ASSERT_TRUE(changes) << changes.error().message();
  EXPECT_EQ(*changes, (std::vector<KvChanges>(3, {{5, 1}, 0, 0})));
}

TEST(DynamoKv, AMalformedEventIsAnErrorThatNamesTheKey) {
  EXPECT_EQ(fault_of(event({{"removed", {{"block_hashes", "x"}}}})), "block_hashes: has another type");
  EXPECT_EQ(fault_of(event({{"stored", {{"parent_hash", nullptr}}}})), "stored: has another type");
  nlohmann::json nameless = event("cleared");
  nameless.erase("worker_id");
  EXPECT_EQ(fault_of({nameless}), "worker_id: is missing");
  nameless["worker_id"] = -1;
  EXPECT_EQ(fault_of({nameless}), "worker_id: has another type");
  EXPECT_EQ(fault_of({1}), "has no map of a router event");
  EXPECT_FALSE(decode_router_events(packed(event("cleared")) + "x"));
  EXPECT_FALSE(decode_router_events({}));
}

TEST(DynamoKv, EveryCutFrameIsRejected) {
  for (const std::string_view golden : {kKvStoredFrame, kKvRemovedFrame, kKvUsedFrame}) {
    const std::string frame = from_hex(golden);
    const auto envelope = decode_event_frame(frame);
    ASSERT_TRUE(envelope);
    EventEnvelope cut = *envelope;
    for (std::size_t bytes = 0; bytes < envelope->payload.size(); ++bytes) {
      cut.payload = envelope->payload.substr(0, bytes);
      EXPECT_FALSE(decode_worker_kv(cut)) << bytes;
    }
  }
}

TEST(DynamoKv, UnknownBlocksInUseAreNotZero) {
  const auto unknown = decode_kv_metrics(packed({{"worker_id", 5}, {"dp_rank", 0}, {"kv_used_blocks", nullptr}}));
  ASSERT_TRUE(unknown) << unknown.error().message();
  EXPECT_FALSE(*unknown);
  EXPECT_FALSE(decode_kv_metrics(packed({{"worker_id", 5}, {"kv_used_blocks", -1}})));
  EXPECT_FALSE(decode_kv_metrics(packed({{"kv_used_blocks", 1}})));
}

TEST(DynamoKv, GapsOfAPublisherAreLostMessages) {
  WorkerCaches caches;
  for (const std::uint64_t sequence : {7U, 8U, 11U}) caches.add(message(sequence));
  caches.add(message(0, 2));  // Another publisher has a sequence of its own.
  caches.add(message(3));     // A lower number is a restart.
  caches.reject();
  EXPECT_EQ(caches.counts(), (MessageCounts{5, 1, 2}));
}

TEST(DynamoKv, RanksOfAWorkerAreAddedUp) {
  WorkerCaches caches;
  EXPECT_FALSE(caches.of(kWorker));
  caches.add({1, 0, {}, std::pair{WorkerRank{kWorker, 0}, std::uint64_t{10}}});
  caches.add({2, 0, {}, std::pair{WorkerRank{kWorker, 1}, std::uint64_t{5}}});
  caches.add({2, 1, {}, std::pair{WorkerRank{kWorker, 1}, std::uint64_t{7}}});
  EXPECT_FALSE(caches.of(kWorker)->has_events);
  caches.add(message(0, 3));
  caches.add(message(1, 3));
  const auto cache = caches.of(kWorker);
  ASSERT_TRUE(cache);
  EXPECT_EQ(cache->used_blocks, 17U);
  EXPECT_EQ(cache->stored_blocks, 4U);
  EXPECT_EQ(cache->removed_blocks, 2U);
  EXPECT_TRUE(cache->has_events);
  EXPECT_FALSE(caches.of(kWorker + 1));
}

TEST(DynamoKv, WorkersHaveALimit) {
  WorkerCaches caches;
  for (std::uint64_t worker = 0; worker <= WorkerCaches::kWorkersMax; ++worker)
    caches.add({worker, 0, {{{worker, 0}, 1, 0}}, {}});
  EXPECT_FALSE(caches.of(0));
  EXPECT_TRUE(caches.of(WorkerCaches::kWorkersMax));
  EXPECT_EQ(caches.counts().received, WorkerCaches::kWorkersMax + 1);
}

}  // namespace
}  // namespace penstock::telemetry
