#include "telemetry/event_envelope.h"

#include <gtest/gtest.h>

#include "telemetry/forward_pass.h"
#include "telemetry/golden_messages_testing.h"
#include "telemetry/msgpack.h"

namespace penstock::telemetry {
namespace {

std::string frame_of(std::string_view envelope) {
  std::string frame{'\x01', '\0', '\0'};
  frame += static_cast<char>(envelope.size() >> 8);
  frame += static_cast<char>(envelope.size());
  return frame.append(envelope);
}

TEST(EventEnvelope, ReadsAnIterationOfDynamo161) {
  const std::string frame = from_hex(kForwardPassFrame);
  const auto envelope = decode_event_frame(frame);
  ASSERT_TRUE(envelope) << envelope.error().message();
  EXPECT_EQ(envelope->publisher_id, 2395676951078088U);
  EXPECT_EQ(envelope->sequence, 45U);
  EXPECT_EQ(envelope->topic, kForwardPassTopic);
  const auto message = decode_forward_pass(envelope->payload);
  ASSERT_TRUE(message) << message.error().message();
  EXPECT_EQ(message->worker_id, "14707549495232457309");
  EXPECT_EQ(message->counter_id, 46U);
  EXPECT_NEAR(message->wall_time, 0.017216, 1e-6);
  EXPECT_EQ(message->scheduled_requests.num_prefill_requests, 1U);
  EXPECT_EQ(message->scheduled_requests.sum_prefill_tokens, 47U);
}

TEST(EventEnvelope, ReadsAHeartbeatOfDynamo131) {
  const std::string frame = from_hex(kHeartbeatFrame);
  const auto envelope = decode_event_frame(frame);
  ASSERT_TRUE(envelope) << envelope.error().message();
  EXPECT_EQ(envelope->publisher_id, 9158693028706924843U);
  EXPECT_EQ(envelope->sequence, 44U);
  const auto message = decode_forward_pass(envelope->payload);
  ASSERT_TRUE(message) << message.error().message();
  EXPECT_TRUE(message->is_heartbeat());
  EXPECT_EQ(message->worker_id, "11586498833411881347");
}

TEST(EventEnvelope, TheEnvelopeOfNatsHasNoHeader) {
  const std::string frame = from_hex(kForwardPassFrame);
  const auto envelope = decode_event_envelope(std::string_view{frame}.substr(5));
  ASSERT_TRUE(envelope);
  EXPECT_EQ(envelope->sequence, 45U);
}

TEST(EventEnvelope, EveryCutFrameIsRejected) {
  const std::string frame = from_hex(kForwardPassFrame);
  for (std::size_t bytes = 0; bytes < frame.size(); ++bytes)
    EXPECT_FALSE(decode_event_frame(std::string_view{frame}.substr(0, bytes))) << bytes;
  EXPECT_FALSE(decode_event_frame(frame + "x"));
}

TEST(EventEnvelope, AnErrorNamesWhatIsWrong) {
  std::string frame = from_hex(kForwardPassFrame);
  frame[0] = '\x02';
  EXPECT_NE(decode_event_frame(frame).error().message().find("has version 2, but only 1 is known"), std::string::npos);
  frame = from_hex(kForwardPassFrame);
  frame[4] = static_cast<char>(frame[4] + 1);
  EXPECT_NE(decode_event_frame(frame).error().message().find("names 521 bytes, but 520 follow"), std::string::npos);

  const auto error_of = [](auto write) {
    std::string bytes;
    MsgpackWriter writer(bytes);
    write(writer);
    const auto envelope = decode_event_frame(frame_of(bytes));
    return envelope ? std::string{} : envelope.error().message();
  };
  EXPECT_EQ(error_of([](MsgpackWriter& writer) { writer.text("no map"); }), "event envelope: must be a msgpack map");
  EXPECT_EQ(error_of([](MsgpackWriter& writer) {
              writer.map(1);
              writer.text("publisher_id");
              writer.text("7");
            }),
            "event envelope: publisher_id: has another type");
  EXPECT_EQ(error_of([](MsgpackWriter& writer) {
              writer.map(2);
              writer.text("publisher_id");
              writer.unsigned_integer(7);
              writer.text("unknown");
              writer.array(0);
            }),
            "event envelope: sequence: is missing");
}

}  // namespace
}  // namespace penstock::telemetry
