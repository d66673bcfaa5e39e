#include "telemetry/kv_event.h"

#include <gtest/gtest.h>

#include "telemetry/golden_messages_testing.h"
#include "telemetry/msgpack.h"

namespace penstock::telemetry {
namespace {

BlockStored stored(std::vector<BlockHash> hashes) {
  BlockStored event;
  event.block_hashes = std::move(hashes);
  event.token_ids = {1, 200, 70000, 4};
  event.block_size = 2;
  event.medium = "GPU";
  return event;
}

std::vector<KvEvent> golden_events() {
  BlockStored second = stored({0x18191a1b1c1d1e1fU});
  second.parent_block_hash = 7;
  second.token_ids = {9, 8};
  second.lora_id = 5;
  second.medium = "CPU";
  second.lora_name = "lora-a";
  second.group_idx = 1;
  return {stored({15760518052499183552U, static_cast<BlockHash>(-2)}), second, BlockRemoved{{7}, "GPU", {}},
          AllBlocksCleared{}};
}

KvEventBatch groups() {
  BlockStored event = stored({11});
  event.parent_block_hash = 7;
  event.token_ids = {9, 8};
  event.medium.clear();
  event.group_idx = 2;
  return {1.5, {event, BlockRemoved{{7}, "", 0U}, AllBlocksCleared{}}, {}, 0};
}

TEST(KvEvent, ReadsTheBatchesOfVllmInBothLayouts) {
  for (const std::string_view hex : {kArrayBatch, kMapBatch}) {
    const auto batch = decode_batch(from_hex(hex));
    ASSERT_TRUE(batch) << batch.error().message();
    EXPECT_EQ(batch->ts, 1761816192.25);
    EXPECT_EQ(batch->data_parallel_rank, 1U);
    EXPECT_EQ(batch->unknown_events, 0U);
    EXPECT_EQ(batch->events, golden_events());
  }
}

TEST(KvEvent, ReadsAnArrayOfMaps) {
  const auto batch = decode_batch(from_hex(kMixedBatch));
  ASSERT_TRUE(batch) << batch.error().message();
  ASSERT_EQ(batch->events.size(), 1U);
  EXPECT_EQ(std::get<BlockStored>(batch->events[0]).group_idx, 0U);
  EXPECT_EQ(batch->data_parallel_rank, 0U);
}

TEST(KvEvent, ReadsOlderEventsWithFewerFields) {
  const auto batch = decode_batch(from_hex(kSglangBatch));
  ASSERT_TRUE(batch) << batch.error().message();
  ASSERT_EQ(batch->events.size(), 2U);
  EXPECT_EQ(std::get<BlockStored>(batch->events[0]).block_hashes[0], static_cast<BlockHash>(-5));
  EXPECT_EQ(std::get<BlockStored>(batch->events[0]).medium, "");
  EXPECT_EQ(std::get<BlockRemoved>(batch->events[1]).block_hashes[0], static_cast<BlockHash>(-5));
  EXPECT_FALSE(batch->data_parallel_rank);
}

TEST(KvEvent, WritesTheMapsOfVllmByteForByte) {
  EXPECT_EQ(encode_batch(groups(), KvEventLayout::kMaps), from_hex(kMapGroups));
}

TEST(KvEvent, ReadsBackWhatItWrites) {
  for (const KvEventLayout layout : {KvEventLayout::kArrays, KvEventLayout::kMaps}) {
    KvEventBatch batch{1761816192.25, golden_events(), 3U, 0};
    const auto again = decode_batch(encode_batch(batch, layout));
    ASSERT_TRUE(again) << again.error().message();
    EXPECT_EQ(again->events, batch.events);
    EXPECT_EQ(again->data_parallel_rank, 3U);
    const auto grouped = decode_batch(encode_batch(groups(), layout));
    ASSERT_TRUE(grouped) << grouped.error().message();
    EXPECT_EQ(grouped->events, groups().events);
  }
  EXPECT_EQ(decode_batch(from_hex(kArrayGroups))->events, groups().events);
}

TEST(KvEvent, SkipsEventsOfOtherKinds) {
  std::string bytes;
  MsgpackWriter writer(bytes);
  writer.array(2);
  writer.number(1.0);
  writer.array(3);
  writer.array(2);
  writer.text("BlockMoved");
  writer.array(1);
  writer.unsigned_integer(3);
  writer.map(2);
  writer.text("extra");
  writer.nil();
  writer.text("type");
  writer.text("BlockPinned");
  writer.array(1);
  writer.text("AllBlocksCleared");
  const auto batch = decode_batch(bytes);
  ASSERT_TRUE(batch) << batch.error().message();
  EXPECT_EQ(batch->unknown_events, 2U);
  EXPECT_EQ(batch->events, std::vector<KvEvent>{AllBlocksCleared{}});
}

std::string batch_of(std::string_view event_hex) { return from_hex("92cb3ff000000000000091" + std::string(event_hex)); }

TEST(KvEvent, NamesTheFieldThatIsWrong) {
  struct Case {
    std::string bytes, error;
  };
  const Case cases[] = {
      {from_hex("a161"), "must be an array or a map"},
      {from_hex("91cb3ff0000000000000"), "events: is missing"},
      {from_hex("92c090"), "ts: is not what it should be"},
      {from_hex("92cb7ff800000000000090"), "ts: is not what it should be"},
      {from_hex("92cb3ff0000000000000a0"), "events: is not what it should be"},
      {from_hex("92cb3ff00000000000009000"), "goes on after its end"},
      {batch_of("9107"), "events[0]"},
      {batch_of("91ac426c6f636b52656d6f766564"), "events[0].block_hashes: is missing"},
      {batch_of("92ac426c6f636b52656d6f76656491a161"), "events[0].block_hashes"},
      {batch_of("92ac426c6f636b52656d6f76656491c400"), "events[0].block_hashes"},
      {batch_of("95ab426c6f636b53746f7265649101c0910100"), "events[0].block_size"},
      {batch_of("95ab426c6f636b53746f7265649101c091ff01"), "events[0].token_ids"},
      {batch_of("94ab426c6f636b53746f7265649101c09101"), "events[0].block_size: is missing"},
  };
  for (const Case& one : cases) {
    const auto batch = decode_batch(one.bytes);
    ASSERT_FALSE(batch) << one.error;
    EXPECT_NE(batch.error().message().find(one.error), std::string::npos) << batch.error().message();
  }
}

TEST(KvEvent, RejectsTruncatedAndTrailingBytes) {
  for (const std::string_view hex : {kArrayBatch, kMapBatch}) {
    const std::string bytes = from_hex(hex);
    for (std::size_t size = 0; size < bytes.size(); ++size) EXPECT_FALSE(decode_batch(bytes.substr(0, size))) << size;
  }
  EXPECT_FALSE(decode_batch(std::string(kKvBatchBytesMax + 1, '\x91')));
  EXPECT_FALSE(decode_batch(std::string(kKvBatchBytesMax, '\x91')));
}

}  // namespace
}  // namespace penstock::telemetry
