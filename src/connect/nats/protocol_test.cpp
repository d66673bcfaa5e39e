#include "connect/nats/protocol.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "telemetry/event_envelope.h"
#include "telemetry/forward_pass.h"
#include "telemetry/golden_messages_testing.h"

namespace penstock::connect {
namespace {

// What one operation was, in words.
std::vector<std::string> read(NatsParser& parser, std::string_view bytes) {
  parser.add(bytes);
  std::vector<std::string> all;
  for (;;) {
    const auto next = parser.next();
    if (!next) {
      all.push_back("error: " + next.error().message());
      return all;
    }
    if (!*next) return all;
    const NatsReceived& got = **next;
    switch (got.operation) {
      case NatsOperation::kInfo: all.push_back("info " + std::string{got.text}); break;
      case NatsOperation::kPing: all.emplace_back("ping"); break;
      case NatsOperation::kPong: all.emplace_back("pong"); break;
      case NatsOperation::kOk: all.emplace_back("ok"); break;
      case NatsOperation::kError: all.push_back("error of the server " + std::string{got.text}); break;
      case NatsOperation::kMessage:
        all.push_back(std::string{got.subject} + " " + std::to_string(got.subscription) + " " +
                      std::string{got.payload});
        break;
    }
  }
}

constexpr std::string_view kStream =
    "INFO {\"server_id\":\"N\",\"version\":\"2.9.10\"} \r\nPING\r\n+OK\r\nMSG a.b 1 5\r\nhe\r\no\r\n"
    "msg\ta.b  2\treply.to 0\r\n\r\nHMSG a.c 3 12 17\r\nNATS/1.0\r\n\r\nworld\r\n-ERR 'Stale Connection'\r\nPONG\r\n";

const std::vector<std::string> kOperations = {
    "info {\"server_id\":\"N\",\"version\":\"2.9.10\"} ",
    "ping",
    "ok",
    "a.b 1 he\r\no",
    "a.b 2 ",
    "a.c 3 world",
    "error of the server 'Stale Connection'",
    "pong",
};

TEST(NatsParser, ReadsWhatAServerSends) {
  NatsParser parser;
  EXPECT_EQ(read(parser, kStream), kOperations);
}

TEST(NatsParser, ReadsAStreamThatArrivesInPieces) {
  for (const std::size_t piece : {1U, 2U, 7U}) {
    NatsParser parser;
    std::vector<std::string> all;
    for (std::size_t at = 0; at < kStream.size(); at += piece)
      for (std::string& each : read(parser, kStream.substr(at, piece))) all.push_back(std::move(each));
    EXPECT_EQ(all, kOperations) << piece;
  }
}

TEST(NatsParser, RejectsWhatIsNotOfTheProtocol) {
  for (const std::string_view bytes :
       {"HTTP/1.1 400 Bad Request\r\n", "MSG a.b 1\r\n", "MSG a.b one 5\r\n", "MSG a.b 1 r s 5\r\n", "MSG a.b 1 -5\r\n",
        "MSG a.b 1 5\r\nhello\n\n", "MSG a.b 1 16777217\r\n", "MSG a.b 1 99999999999999999999\r\n",
        "HMSG a.b 1 9 5\r\n", "HMSG a.b 1 5\r\n", "\r\n"}) {
    NatsParser parser;
    const auto all = read(parser, bytes);
    ASSERT_EQ(all.size(), 1U) << bytes;
    EXPECT_TRUE(all[0].starts_with("error: NATS: ")) << all[0];
  }
  NatsParser parser;
  EXPECT_TRUE(read(parser, "INFO " + std::string(kNatsLineBytesMax, 'x'))[0].starts_with("error: "));
}

TEST(NatsParser, ReadsAnotherStreamAfterAnError) {
  NatsParser parser;
  EXPECT_EQ(read(parser, "MSG a.b 1 100\r\ncut").size(), 0U);
  parser.reset();
  EXPECT_EQ(read(parser, "PING\r\n"), std::vector<std::string>{"ping"});
}

TEST(NatsParser, ReadsAnIterationOfDynamo) {
  // Sent through nats-server 2.9.10 by the mocker of Dynamo 1.6.1.
  const std::string envelope = telemetry::from_hex(telemetry::kForwardPassEnvelope);
  NatsParser parser;
  parser.add("MSG namespace.dynamo.component.backend.endpoint.generate.forward-pass-metrics 1 " +
             std::to_string(envelope.size()) + "\r\n" + envelope + "\r\n");
  const auto next = parser.next();
  ASSERT_TRUE(next && *next);
  const auto event = telemetry::decode_event_envelope((*next)->payload);
  ASSERT_TRUE(event) << event.error().message();
  EXPECT_EQ(event->topic, telemetry::kForwardPassTopic);
  EXPECT_EQ(event->publisher_id, 4471206360955536U);
  EXPECT_EQ(event->sequence, 1U);
  const auto metrics = telemetry::decode_forward_pass(event->payload);
  ASSERT_TRUE(metrics) << metrics.error().message();
  EXPECT_EQ(metrics->worker_id, "2803242992631074409");
  EXPECT_EQ(metrics->counter_id, 2U);
}

TEST(NatsEndpoint, IsAServerAndASubject) {
  const auto endpoint = parse_nats_endpoint("nats://nats.example:5222/namespace.dynamo.>");
  ASSERT_TRUE(endpoint);
  EXPECT_EQ(endpoint->server(), "nats://nats.example:5222");
  EXPECT_EQ(endpoint->subject, "namespace.dynamo.>");
  EXPECT_EQ(parse_nats_endpoint("nats://127.0.0.1")->server(), "nats://127.0.0.1:4222");
  EXPECT_EQ(parse_nats_endpoint("nats://[::1]:4223/a")->server(), "nats://[::1]:4223");
  EXPECT_EQ(parse_nats_endpoint("nats://[::1]/a")->server(), "nats://[::1]:4222");
  for (const char* text : {"", "nats://", "tcp://127.0.0.1:1", "nats://h:1/a b", "nats://h:1/a..b", "nats://h:x/a",
                           "nats://user:secret@h:1/a", "nats://h:1/a\r\nSUB"})
    EXPECT_FALSE(parse_nats_endpoint(text)) << text;
}

}  // namespace
}  // namespace penstock::connect
