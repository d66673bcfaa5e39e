#include "connect/nats/endpoint.h"

#include <gtest/gtest.h>

namespace penstock::connect {
namespace {

TEST(NatsEndpoint, IsAServerAndASubject) {
  const auto endpoint = parse_nats_endpoint("nats://nats.example:5222/namespace.dynamo.>");
  ASSERT_TRUE(endpoint);
  EXPECT_EQ(endpoint->server(), "nats://nats.example:5222");
  EXPECT_EQ(endpoint->subject, "namespace.dynamo.>");
  EXPECT_FALSE(endpoint->tls);
  EXPECT_EQ(parse_nats_endpoint("nats://127.0.0.1")->server(), "nats://127.0.0.1:4222");
  EXPECT_EQ(parse_nats_endpoint("nats://[::1]:4223/a")->server(), "nats://[::1]:4223");
  EXPECT_EQ(parse_nats_endpoint("nats://[::1]/a")->server(), "nats://[::1]:4222");
  for (const char* text : {"", "nats://", "tcp://127.0.0.1:1", "nats://h:1/a b", "nats://h:1/a..b", "nats://h:x/a",
                           "nats://user:secret@h:1/a", "nats://h:1/a\r\nSUB", "nats://https://h:1"})
    EXPECT_FALSE(parse_nats_endpoint(text)) << text;
}

TEST(NatsEndpoint, ASchemeRequiresTls) {
  const auto endpoint = parse_nats_endpoint("tls://nats.example/a.b");
  ASSERT_TRUE(endpoint);
  EXPECT_TRUE(endpoint->tls);
  EXPECT_EQ(endpoint->server(), "tls://nats.example:4222");
  EXPECT_TRUE(is_nats_endpoint("tls://nats.example/a.b"));
  EXPECT_FALSE(is_nats_endpoint("tcp://nats.example:1"));
}

TEST(NatsEndpoint, AnErrorDoesNotShowThePasswordOfAUrl) {
  const auto endpoint = parse_nats_endpoint("nats://user:geheim@h:1/a");
  ASSERT_FALSE(endpoint);
  EXPECT_EQ(endpoint.error().message().find("geheim"), std::string::npos) << endpoint.error().message();
  EXPECT_NE(endpoint.error().message().find("planner.nats.password_file"), std::string::npos)
      << endpoint.error().message();
}

}  // namespace
}  // namespace penstock::connect
