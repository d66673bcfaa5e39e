// Behaviour of the client with slow, broken or closed servers, and cancellation.
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "net/client.h"
#include "net/client_testing.h"
#include "net/tls_testing.h"

namespace penstock::net {
namespace {

using namespace testing;

Recorder fault_of(const ScriptedServer::Script& script, const std::function<void(CallOptions&)>& adjust = {},
                  const ClientLimits& limits = {}) {
  ScriptedServer server{script};
  Loop loop;
  Client client{loop, limits};
  Recorder recorder{loop};
  CallOptions options = to(server.address());
  if (adjust) adjust(options);
  client.call(options, kGet, {}, recorder);
  run(loop);
  EXPECT_EQ(recorder.faults, 1);
  EXPECT_EQ(client.open_connections(), 0U);
  return recorder;
}

ScriptedServer::Script says(const std::string& bytes) {
  return [bytes](Peer& peer, int) {
    peer.read_request();
    peer.send(bytes);
    peer.wait_until_closed();
  };
}

TEST(ClientFaults, ReportsAFailedConnectionFromTheLoopOnly) {
  const int listening = *listen_on(Address{}, false);
  const Address unreachable = local_address(listening);
  ::close(listening);
  Loop loop;
  Client client{loop};
  Recorder recorder{loop};
  client.call(to(unreachable), kGet, {}, recorder);
  EXPECT_EQ(recorder.faults, 0);
  run(loop);
  EXPECT_EQ(recorder.fault, ClientFault::kConnect);
  EXPECT_FALSE(recorder.answered);
}

TEST(ClientFaults, ReportsAnIncompleteResponseAsClosed) {
  for (const char* part :
       {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", "HTTP/1.1 100 Continue\r\n\r\n"})
    for (const bool resets : {false, true}) {
      const Recorder recorder = fault_of([&](Peer& peer, int) {
        peer.read_request();
        peer.send(part);
        std::this_thread::sleep_for(std::chrono::milliseconds{5});
        if (resets) peer.reset();
      });
      EXPECT_EQ(recorder.fault, ClientFault::kClosed) << part;
      EXPECT_TRUE(recorder.answered);
    }
}

TEST(ClientFaults, ATruncatedBodyWithoutALengthIsAFault) {
  const Recorder recorder = fault_of([](Peer& peer, int) {
    peer.read_request();
    peer.send("HTTP/1.1 200 OK\r\n\r\nsome");
    std::this_thread::sleep_for(std::chrono::milliseconds{5});
    peer.reset();
  });
  EXPECT_EQ(recorder.fault, ClientFault::kClosed);
}

TEST(ClientFaults, DetectsResponsesThatAreNotHttp) {
  for (const char* garbage :
       {"garbage", "\r\n", "H2", "SSH-2.0-OpenSSH_9.2\r\n", "HTTP/2 200\r\n\r\n", "HTTP/1.1 20x OK\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nhello\r\n", "HTTP/1.1 101 Switching Protocols\r\n\r\n"}) {
    const Recorder recorder = fault_of(says(garbage));
    EXPECT_EQ(recorder.fault, ClientFault::kMalformed) << garbage;
    EXPECT_TRUE(recorder.answered);
    EXPECT_EQ(recorder.body, "");
  }
}

TEST(ClientFaults, LimitsTheHead) {
  ClientLimits limits;
  limits.head_bytes = 1000;
  for (const char* end : {"", "\r\n\r\n"}) {
    const std::string head = "HTTP/1.1 200 OK\r\nX: " + std::string(2000, 'x') + end;
    EXPECT_EQ(fault_of(says(head), {}, limits).fault, ClientFault::kMalformed);
  }
  const std::string endless = "HTTP/1.1 200 OK\r\nX: " + std::string(200'000, 'x');
  EXPECT_EQ(fault_of(says(endless)).fault, ClientFault::kMalformed);
}

TEST(ClientFaults, LimitsTheTimeForTheHead) {
  const auto soon = [](CallOptions& options) { options.head_time = std::chrono::milliseconds{5}; };
  const Recorder silent = fault_of(says(""), soon);
  EXPECT_EQ(silent.fault, ClientFault::kTimeout);
  EXPECT_FALSE(silent.answered);
  const Recorder begun = fault_of(says("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 2"), soon);
  EXPECT_EQ(begun.fault, ClientFault::kTimeout);
  EXPECT_TRUE(begun.answered);
}

TEST(ClientFaults, TheTimeForTheHeadMayLastUntilTheCallerHasWhatItWaitsFor) {
  const auto soon = [](CallOptions& options) {
    options.head_time = std::chrono::milliseconds{5};
    options.waits_for_begun = true;
  };
  for (const char* beginning : {"", "hell"}) {
    const Recorder recorder =
        fault_of(says("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n" + std::string{beginning}), soon);
    EXPECT_EQ(recorder.fault, ClientFault::kTimeout);
    EXPECT_EQ(recorder.body, beginning);
  }
  ScriptedServer server{says("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell")};
  Loop loop;
  Client client{loop};
  Recorder recorder{loop};
  CallOptions options = to(server.address());
  options.silence = std::chrono::milliseconds{5};
  options.waits_for_begun = true;
  Call& call = client.call(options, kGet, {}, recorder);
  run_for(loop, std::chrono::milliseconds{600});
  EXPECT_EQ(recorder.body, "hell");
  EXPECT_EQ(recorder.faults, 0);
  call.begun();
  run(loop);
  EXPECT_EQ(recorder.fault, ClientFault::kTimeout);
}

TEST(ClientFaults, LimitsTheTimeBetweenPieces) {
  const auto soon = [](CallOptions& options) { options.silence = std::chrono::milliseconds{5}; };
  const Recorder recorder = fault_of(says("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell"), soon);
  EXPECT_EQ(recorder.fault, ClientFault::kTimeout);
  EXPECT_EQ(recorder.body, "hell");
}

TEST(ClientFaults, TheConnectTimeoutIncludesTls) {
  const TestCertificate certificate;
  ClientLimits limits;
  limits.connect_time = std::chrono::milliseconds{5};
  const auto with_tls = [&](CallOptions& options) {
    options.tls = certificate.client();
    options.host = "localhost";
  };
  const Recorder recorder = fault_of([](Peer& peer, int) { peer.wait_until_closed(); }, with_tls, limits);
  EXPECT_EQ(recorder.fault, ClientFault::kTimeout);
  EXPECT_FALSE(recorder.answered);
}

TEST(ClientFaults, APauseDoesNotCountAsATimeout) {
  ScriptedServer server{says("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nabc")};
  Loop loop;
  Client client{loop};
  Recorder recorder{loop};
  CallOptions options = to(server.address());
  options.silence = std::chrono::milliseconds{5};
  Call& call = client.call(options, kGet, {}, recorder);
  recorder.at_body = [&] { call.pause(); };
  run_for(loop, std::chrono::milliseconds{600});
  EXPECT_EQ(recorder.body, "abc");
  EXPECT_EQ(recorder.faults, 0);
  call.resume();
  run(loop);
  EXPECT_EQ(recorder.fault, ClientFault::kTimeout);
}

TEST(ClientFaults, TimedOutListenersMayCancelEachOther) {
  ScriptedServer server{says("")};
  Loop loop;
  Client client{loop};
  Recorder one{loop}, two{loop}, after{loop};
  CallOptions options = to(server.address());
  options.head_time = std::chrono::milliseconds{5};
  Call* calls[] = {&client.call(options, kGet, {}, one), &client.call(options, kGet, {}, two)};
  int over = 0;
  one.at_over = [&] {
    ++over;
    calls[1]->cancel();
    client.call(options, kGet, {}, after);
  };
  two.at_over = [&] {
    ++over;
    calls[0]->cancel();
    client.call(options, kGet, {}, after);
  };
  run(loop);
  EXPECT_EQ(over, 1);
  EXPECT_EQ(after.fault, ClientFault::kTimeout);
  EXPECT_EQ(client.open_connections(), 0U);
}

// Cancels at the given point; the server must observe the end of its connection.
enum class When { kAtOnce, kConnected, kAtHead, kAtBody, kInBody };
void cancel_and_look(When when, bool tls) {
  SCOPED_TRACE(static_cast<int>(when));
  const TestCertificate certificate;
  std::atomic<bool> cancel_seen{false};
  {
    ScriptedServer server{[&](Peer& peer, int) {
                            if (peer.read_request() && when != When::kConnected)
                              peer.send("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc");
                            peer.wait_until_closed();
                            cancel_seen = true;
                          },
                          tls ? certificate.server() : nullptr};
    Loop loop;
    Client client{loop};
    Recorder recorder{loop};
    CallOptions options = to(server.address());
    if (tls) options.tls = certificate.client();
    options.host = "localhost";
    Call& call = client.call(options, kGet, {}, recorder);
    if (when == When::kAtHead) recorder.at_head = [&] { call.cancel(), loop.stop(); };
    if (when == When::kAtBody) recorder.at_body = [&] { call.cancel(), loop.stop(); };
    if (when == When::kInBody) recorder.at_body = [&] { loop.stop(); };
    if (when == When::kConnected) run_for(loop, std::chrono::milliseconds{50});
    if (when > When::kConnected) run(loop);
    if (when < When::kAtHead || when == When::kInBody) call.cancel();
    run_for(loop, std::chrono::milliseconds{5});
    EXPECT_EQ(recorder.ends + recorder.faults, 0);
    EXPECT_EQ(recorder.pieces, when >= When::kAtBody ? 1 : 0);
    EXPECT_EQ(client.open_connections(), 0U);
  }
  // A call without a response may be cancelled before the server has accepted it.
  EXPECT_TRUE(cancel_seen || when <= When::kConnected);
}

TEST(ClientCancel, ClosesAtOnceInEachState) {
  for (const bool tls : {false, true})
    for (const When when : {When::kAtOnce, When::kConnected, When::kAtHead, When::kAtBody, When::kInBody})
      cancel_and_look(when, tls);
}

TEST(ClientCancel, EndsAFailedCallBeforeItIsReported) {
  const int listening = *listen_on(Address{}, false);
  const Address unreachable = local_address(listening);
  ::close(listening);
  Loop loop;
  Client client{loop};
  Recorder recorder{loop};
  client.call(to(unreachable), kGet, {}, recorder).cancel();
  run_for(loop, std::chrono::milliseconds{5});
  EXPECT_EQ(recorder.faults, 0);
}

TEST(ClientCancel, ADestroyedClientCallsNoListener) {
  ScriptedServer server{says("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc")};
  Loop loop;
  Recorder recorder{loop};
  {
    Client client{loop};
    client.call(to(server.address()), kGet, {}, recorder);
    recorder.at_body = [&] { loop.stop(); };
    run(loop);
  }
  run_for(loop, std::chrono::milliseconds{5});
  EXPECT_EQ(recorder.ends + recorder.faults, 0);
}

}  // namespace
}  // namespace penstock::net
