#include <nghttp2/nghttp2.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "net/grpc_server.h"
#include "net/grpc_testing.h"

namespace penstock::net {
namespace {

using testing::framed;
using Client = testing::GrpcClient;

constexpr std::size_t kMiB = std::size_t{1} << 20;

// "/t.T/Pull" answers its first message with 1 MiB and an end; each other call answers each message with itself, and
// ends when the client does.
class EchoService final : public GrpcHandler {
 public:
  void on_message(GrpcCall& call, std::string_view message, bool) override {
    if (call.path() == "/t.T/Pull") {
      call.send(std::string(kMiB, 'x'));
      return call.finish(GrpcStatus::kOk);
    }
    call.send(message);
    received[&call] += message.size();
    stored_max = std::max(stored_max, call.unsent());
  }
  void on_half_closed(GrpcCall& call) override {
    ++half_closed;
    received.erase(&call);
    call.finish(GrpcStatus::kOk);
  }
  void on_gone(GrpcCall& call) override {
    received.erase(&call);
    ++gone;
  }

  std::map<GrpcCall*, std::size_t> received;  // Bytes, of open calls.
  std::size_t stored_max = 0;
  int half_closed = 0, gone = 0;
};

using Serving = testing::GrpcServing<EchoService>;

TEST(GrpcStreams, TheHandlerFinishesACallThatTheClientHasEnded) {
  Serving serving;
  Client client{serving.address};
  const std::int32_t stream = client.call("/t.T/Echo", framed("one"), "application/grpc", false);
  ASSERT_TRUE(client.until([&] { return client.answers[stream].body == framed("one"); }));
  serving.run([&] { EXPECT_EQ(serving.service.half_closed, 0); });
  client.more(stream, framed("two"));
  ASSERT_TRUE(client.until([&] { return client.answers[stream].body == framed("one") + framed("two"); }));
  client.more(stream, "", true);
  EXPECT_EQ(client.wait(stream).fields.at("grpc-status"), "0");
  serving.run([&] {
    EXPECT_EQ(serving.service.half_closed, 1);
    EXPECT_EQ(serving.service.gone, 0);
  });
}

TEST(GrpcStreams, AMessageOfSeveralMegabytesIsTheSameInPiecesOfAnySize) {
  Serving serving{{.message_bytes = 4 * kMiB, .unsent_bytes = 64 * kMiB, .window_bytes = kMiB}};
  Client client{serving.address};
  std::string text(4 * kMiB, ' ');
  for (std::size_t at = 0; at < text.size(); ++at) text[at] = static_cast<char>(at * 7 + (at >> 12));
  for (const std::size_t piece : {std::size_t{1'000}, std::size_t{16'393}, SIZE_MAX}) {
    const std::int32_t stream = client.call("/t.T/Echo", framed(text) + framed("") + framed("end"));
    client.flush(piece);
    EXPECT_TRUE(client.wait(stream).body == framed(text) + framed("") + framed("end"));
    EXPECT_EQ(client.answers[stream].fields.at("grpc-status"), "0");
  }
}

TEST(GrpcStreams, ManySmallMessagesArriveInOneFrame) {
  Serving serving;
  Client client{serving.address};
  std::string messages;
  for (int i = 0; i < 1'000; ++i) messages += framed(std::to_string(i));
  EXPECT_EQ(client.wait(client.call("/t.T/Echo", messages)).body, messages);
}

TEST(GrpcStreams, AClientMaySendAWindowBeforeTheServerReads) {
  Serving serving{{.message_bytes = kMiB, .unsent_bytes = kMiB, .window_bytes = kMiB}};
  Client client{serving.address};
  EXPECT_EQ(client.wait(client.call("/t.T/Echo", framed("x"))).body, framed("x"));
  EXPECT_EQ(client.server_window(), kMiB);
  const std::string text = framed(std::string(450'000, 'x'));
  const std::int32_t stream = client.call("/t.T/Echo", text);
  client.flush();
  EXPECT_EQ(client.unsent(stream), 0U) << "before anything is read";
  EXPECT_TRUE(client.wait(stream).body == text);
}

TEST(GrpcStreams, ACallThatIsNotReadIsNotReadEitherAndOthersGoOn) {
  constexpr std::size_t kStored = 256 * 1024, kWindow = 65'535;
  Serving serving{{.unsent_bytes = 64 * kMiB}};
  Client client{serving.address};
  std::string text;
  for (int i = 0; i < 2'000; ++i) text += framed(std::string(1'000, static_cast<char>('a' + i % 26)));
  const std::int32_t slow = client.call("/t.T/Echo", text, "application/grpc", false);
  client.slow.insert(slow);
  std::size_t before = 0;
  do {  // Calls that are read go on while the other one fills.
    before = client.unsent(slow);
    for (int i = 0; i < 20; ++i) EXPECT_EQ(client.wait(client.call("/t.T/Echo", framed("y"))).body, framed("y"));
  } while (client.unsent(slow) != before);
  EXPECT_GT(client.unsent(slow), text.size() / 2);
  serving.run([&] {
    EXPECT_GT(serving.service.stored_max, kStored);
    EXPECT_LE(serving.service.stored_max, kStored + 2 * kWindow);
  });
  client.read_again(slow);
  client.more(slow, "", true);
  EXPECT_TRUE(client.wait(slow).body == text);
  EXPECT_EQ(client.answers[slow].fields.at("grpc-status"), "0");
}

TEST(GrpcStreams, WhatWasSentBeforeAnEndReachesTheClientWhole) {
  Serving serving{{.unsent_bytes = 64 * kMiB}};
  Client client{serving.address};
  std::vector<std::int32_t> streams;
  for (int i = 0; i < 20; ++i) {
    streams.push_back(client.call("/t.T/Pull", framed("x"), "application/grpc", false));
    client.slow.insert(streams.back());
  }
  ASSERT_TRUE(client.until([&] { return client.answers[streams.back()].body.size() >= 65'535; }));
  for (const std::int32_t stream : streams) client.read_again(stream);
  for (const std::int32_t stream : streams) {
    EXPECT_TRUE(client.wait(stream).body == framed(std::string(kMiB, 'x')));
    EXPECT_EQ(client.answers[stream].fields["grpc-status"], "0");
  }
  serving.run([&] { EXPECT_EQ(serving.service.gone, 0); });
}

TEST(GrpcStreams, WhatCancelledCallsStoredDoesNotCount) {
  Serving serving{{.unsent_bytes = 2 * kMiB}};
  Client client{serving.address};
  for (int i = 0; i < 10; ++i) {
    const std::int32_t stream = client.call("/t.T/Pull", framed("x"));
    client.slow.insert(stream);
    ASSERT_TRUE(client.until([&] { return client.answers[stream].body.size() >= 65'535; }));
    client.cancel(stream);
  }
  EXPECT_EQ(client.wait(client.call("/t.T/Echo", framed("x"))).body, framed("x"));
}

TEST(GrpcStreams, AThousandCallsAreOpenAtATime) {
  Serving serving{{.calls = 10'000}};
  Client client{serving.address};
  std::vector<std::int32_t> streams;
  EXPECT_EQ(client.wait(client.call("/t.T/Echo", framed("x"))).body, framed("x"));  // The settings have arrived.
  for (int i = 0; i < 1'000; ++i) streams.push_back(client.call("/t.T/Echo", framed("1"), "application/grpc", false));
  client.flush();
  EXPECT_TRUE(serving.until([&] { return serving.service.received.size() == 1'000; }));
  for (const std::int32_t stream : streams) client.more(stream, framed("2"), true);
  for (const std::int32_t stream : streams) EXPECT_EQ(client.wait(stream).body, framed("1") + framed("2"));
}

TEST(GrpcStreams, ACallThatTheClientStartsBeforeItKnowsOfADrainIsServed) {
  Serving serving;
  Client client{serving.address};
  EXPECT_EQ(client.wait(client.call("/t.T/Echo", framed("x"))).body, framed("x"));
  serving.run([&] { serving.server->drain(); });
  const std::int32_t stream = client.call("/t.T/Echo", framed("y"));
  client.flush();  // Before anything is read.
  EXPECT_EQ(client.wait(stream).body, framed("y"));
  EXPECT_EQ(client.answers[stream].fields["grpc-status"], "0");
  EXPECT_FALSE(client.until([] { return false; }));
  EXPECT_TRUE(client.closed);
}

}  // namespace
}  // namespace penstock::net
