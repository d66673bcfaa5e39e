#include "connect/zmq/frames.h"

#include <gtest/gtest.h>

#include <vector>

namespace penstock::connect {
namespace {

std::string sequence(char last) { return std::string(7, '\0') + last; }

TEST(Frames, ReadsOneTwoAndThree) {
  const std::vector<std::string> three = {"kv", sequence(7), "p"}, numbered = {sequence(7), "p"}, named = {"kv", "p"},
                                 one = {"p"};
  EXPECT_EQ(read_frames(three)->topic, "kv");
  EXPECT_EQ(read_frames(three)->sequence, 7U);
  EXPECT_EQ(read_frames(three)->payload, "p");
  EXPECT_EQ(read_frames(numbered)->topic, "");
  EXPECT_EQ(read_frames(numbered)->sequence, 7U);
  EXPECT_EQ(read_frames(named)->topic, "kv");
  EXPECT_FALSE(read_frames(named)->sequence);
  EXPECT_EQ(read_frames(one)->payload, "p");
}

TEST(Frames, FourFramesNameTheirPublisher) {
  const std::vector<std::string> four = {"forward-pass-metrics", sequence(9), sequence(7), "p"};
  EXPECT_EQ(read_frames(four)->topic, "forward-pass-metrics");
  EXPECT_EQ(read_frames(four)->publisher, 9U);
  EXPECT_EQ(read_frames(four)->sequence, 7U);
  EXPECT_EQ(read_frames(four)->payload, "p");
}

TEST(Frames, RefusesOtherForms) {
  EXPECT_FALSE(read_frames({}));
  EXPECT_FALSE(read_frames(std::vector<std::string>{"kv", "7", "p"}));
  EXPECT_FALSE(read_frames(std::vector<std::string>{"a", sequence(1), "p", "q"}));
  EXPECT_FALSE(read_frames(std::vector<std::string>{"a", "1", sequence(1), "p"}));
  EXPECT_FALSE(read_frames(std::vector<std::string>{"a", sequence(1), sequence(2), "p", "q"}));
}

TEST(Frames, ReadsTheSequenceBigEndian) {
  EXPECT_EQ(read_frames(std::vector<std::string>{"", std::string("\x01\0\0\0\0\0\x02\x03", 8), ""})->sequence,
            0x0100000000000203U);
}

TEST(Frames, TellsGapsAndRestarts) {
  EXPECT_EQ(step_between({}, 40).lost, 0U);
  EXPECT_EQ(step_between(4, 5).lost, 0U);
  EXPECT_EQ(step_between(4, 8).lost, 3U);
  EXPECT_FALSE(step_between(4, 8).restarted);
  EXPECT_TRUE(step_between(4, 2).restarted);
  EXPECT_EQ(step_between(4, 2).lost, 2U);
  EXPECT_TRUE(step_between(0, 0).restarted);
}

TEST(Frames, KnowsAnEndpointByItsForm) {
  for (const char* good : {"tcp://127.0.0.1:5557", "tcp://engine-0.engines:1", "tcp://[::1]:65535"})
    EXPECT_TRUE(is_tcp_endpoint(good)) << good;
  for (const char* bad :
       {"", "tcp://", "tcp://:5557", "tcp://a", "tcp://a:", "tcp://a:0", "tcp://a:65536", "tcp://a:5x", "tcp://*:5557",
        "tcp://a b:1", "http://a:1", "ipc:///tmp/x", "tcp://eth0;1.2.3.4:5"})
    EXPECT_FALSE(is_tcp_endpoint(bad)) << bad;
}

TEST(Frames, KnowsAnIpv6AddressByItsColons) {
  for (const char* ipv6 : {"tcp://[::1]:5557", "tcp://[fd00::7]:1", "tcp://::1:5557"})
    EXPECT_TRUE(has_ipv6_address(ipv6)) << ipv6;
  for (const char* other : {"tcp://127.0.0.1:5557", "tcp://engine-0.engines:1", "", "tcp", "tcp://", "5557:5557"})
    EXPECT_FALSE(has_ipv6_address(other)) << other;
}

}  // namespace
}  // namespace penstock::connect
