#include "net/grpc_server.h"

#include <nghttp2/nghttp2.h>

#include <chrono>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "net/grpc_testing.h"

namespace penstock::net {
namespace {

using namespace std::string_literals;
using testing::framed;
using Client = testing::GrpcClient;

// A service: "/t.T/Echo" answers with its message, "/t.T/Stream" with "first" and stays open, "/t.T/Flood" with much.
class Service final : public GrpcHandler {
 public:
  void on_message(GrpcCall& call, std::string_view message, bool is_first) override {
    if (!is_first) return call.finish(GrpcStatus::kInvalidArgument, "one message");
    if (call.path() == "/t.T/Echo") {
      call.send(message);
      return call.finish(GrpcStatus::kOk);
    }
    if (call.path() == "/t.T/Stream") {
      open.insert(&call);
      return call.send("first");
    }
    if (call.path() == "/t.T/Flood") return call.send(std::string(1 << 20, 'x'));
    call.finish(GrpcStatus::kUnimplemented, "no method 100 % \n");
  }
  void on_gone(GrpcCall& call) override {
    open.erase(&call);
    ++gone;
  }

  std::set<GrpcCall*> open;
  int gone = 0;
};

using Serving = testing::GrpcServing<Service>;

TEST(GrpcServer, AnswersACallWithItsMessageAndStatus) {
  Serving serving;
  Client client{serving.address};
  const auto& answer = client.wait(client.call("/t.T/Echo", framed("hello")));
  EXPECT_EQ(answer.fields.at(":status"), "200");
  EXPECT_EQ(answer.fields.at("content-type"), "application/grpc");
  EXPECT_EQ(answer.fields.at("grpc-status"), "0");
  EXPECT_EQ(answer.body, framed("hello"));
  EXPECT_EQ(answer.error, 0U);
}

TEST(GrpcServer, TheSizeOfPiecesMeansNothing) {
  Serving serving;
  Client client{serving.address};
  const std::int32_t stream = client.call("/t.T/Echo", framed("in pieces"), "application/grpc+proto");
  client.flush(1);
  EXPECT_EQ(client.wait(stream).body, framed("in pieces"));
}

TEST(GrpcServer, ManyCallsShareAConnection) {
  Serving serving;
  Client client{serving.address};
  std::vector<std::int32_t> streams;
  for (int i = 0; i < 100; ++i) streams.push_back(client.call("/t.T/Echo", framed(std::to_string(i))));
  for (int i = 0; i < 100; ++i) EXPECT_EQ(client.wait(streams[i]).body, framed(std::to_string(i)));
  serving.run([&] { EXPECT_EQ(serving.server->counters().calls, 100U); });
}

TEST(GrpcServer, ErrorsAreStatusesWithTheirTextEncoded) {
  Serving serving;
  Client client{serving.address};
  const auto& answer = client.wait(client.call("/t.T/Other", framed("")));
  EXPECT_EQ(answer.fields.at(":status"), "200");
  EXPECT_EQ(answer.fields.at("grpc-status"), "12");
  EXPECT_EQ(answer.fields.at("grpc-message"), "no method 100 %25 %0A");
}

TEST(GrpcServer, WhatIsNoCallIsRefused) {
  Serving serving{{.message_bytes = 100}};
  Client client{serving.address};
  const auto status = [&](std::string body, std::string_view type = "application/grpc") {
    auto& fields = client.wait(client.call("/t.T/Echo", std::move(body), type)).fields;
    return fields[":status"] + " " + fields["grpc-status"];
  };
  EXPECT_EQ(status(framed("x"), "application/json"), "415 ");
  EXPECT_EQ(status(framed("x"), "application/grpcx"), "415 ");
  EXPECT_EQ(status(""), "200 13");
  EXPECT_EQ(status(framed("x").substr(0, 3)), "200 13");
  EXPECT_EQ(status(framed("x", 1)), "200 12");
  EXPECT_EQ(status(framed(std::string(101, 'x'))), "200 8");
  EXPECT_EQ(status("\0\xff\xff\xff\xff"s), "200 8");
  EXPECT_EQ(status(framed("x") + framed("y")), "200 0");  // The answer ended with the first message.
  EXPECT_EQ(status(framed(std::string(100, 'x'))), "200 0");
}

TEST(GrpcServer, AStreamEndsForItsHandlerWhenTheClientCancelsOrLeaves) {
  Serving serving;
  {
    Client client{serving.address};
    const std::int32_t one = client.call("/t.T/Stream", framed("")), two = client.call("/t.T/Stream", framed(""));
    EXPECT_TRUE(client.until([&] { return !client.answers[one].body.empty() && !client.answers[two].body.empty(); }));
    serving.run([&] { EXPECT_EQ(serving.service.open.size(), 2U); });
    client.cancel(one);
    client.flush();
    EXPECT_TRUE(serving.until([&] { return serving.service.open.size() == 1; }));
  }
  EXPECT_TRUE(serving.until([&] { return serving.service.open.empty() && serving.server->counters().open == 0; }));
  EXPECT_EQ(serving.service.gone, 2);
}

TEST(GrpcServer, AStreamEndsForItsHandlerWhenAFurtherMessageIsRefused) {
  Serving serving{{.message_bytes = 100}};
  Client client{serving.address};
  for (const std::string& further : {framed("", 1), framed(std::string(101, 'x')), framed("x").substr(0, 3)}) {
    const std::int32_t stream = client.call("/t.T/Stream", framed("") + further);
    EXPECT_NE(client.wait(stream).fields["grpc-status"], "0");
    serving.run([&] { EXPECT_TRUE(serving.service.open.empty()); });
  }
  EXPECT_EQ(serving.service.gone, 3);
}

TEST(GrpcServer, AStreamIsWrittenLaterAndEndsWithItsStatus) {
  Serving serving;
  Client client{serving.address};
  const std::int32_t stream = client.call("/t.T/Stream", framed(""));
  ASSERT_TRUE(client.until([&] { return !client.answers[stream].body.empty(); }));
  serving.run([&] {
    GrpcCall& call = **serving.service.open.begin();
    call.send("second");
    call.finish(GrpcStatus::kOk);
  });
  EXPECT_EQ(client.wait(stream).body, framed("first") + framed("second"));
  EXPECT_EQ(client.answers[stream].fields.at("grpc-status"), "0");
  EXPECT_EQ(serving.service.gone, 0);
}

TEST(GrpcServer, AClientThatKeepsItsPartOpenIsReset) {
  Serving serving;
  Client client{serving.address};
  const std::int32_t stream = client.call("/t.T/Echo", framed("x"), "application/grpc", false);
  EXPECT_EQ(client.wait(stream).fields.at("grpc-status"), "0");
  EXPECT_EQ(client.answers[stream].error, std::uint32_t{NGHTTP2_NO_ERROR});
}

TEST(GrpcServer, AClientThatDoesNotReadIsCutOffAtALimit) {
  Serving serving;
  Client client{serving.address};
  const std::int32_t stream = client.call("/t.T/Flood", framed(""));
  EXPECT_FALSE(client.until([&] { return client.answers[stream].ended; }));
  EXPECT_TRUE(client.closed);
}

TEST(GrpcServer, BytesThatAreNotHttp2EndTheConnection) {
  for (const std::string& bytes :
       {"GET / HTTP/1.1\r\nHost: x\r\n\r\n"s, std::string(64, '\0'), std::string(64, '\xff')}) {
    Serving serving;
    Client client{serving.address};
    client.send_raw(bytes);
    EXPECT_TRUE(serving.until([&] { return serving.server->counters().malformed == 1; }));
    serving.run([&] { EXPECT_EQ(serving.server->counters().open, 0U); });
  }
}

TEST(GrpcServer, AClientThatSaysNothingIsCutOff) {
  Serving serving{{.start_time = std::chrono::milliseconds{50}}};
  const Client client{serving.address};
  EXPECT_TRUE(serving.until([&] { return serving.server->counters().timed_out == 1; }));
}

TEST(GrpcServer, MoreConnectionsThanAllowedAreClosed) {
  Serving serving{{.connections = 1}};
  Client one{serving.address};
  EXPECT_EQ(one.wait(one.call("/t.T/Echo", framed("x"))).body, framed("x"));
  Client two{serving.address};
  EXPECT_FALSE(two.until([] { return false; }));
  serving.run([&] { EXPECT_EQ(serving.server->counters().refused, 1U); });
  EXPECT_EQ(one.wait(one.call("/t.T/Echo", framed("y"))).body, framed("y"));
}

TEST(GrpcServer, ADrainLetsCallsEnd) {
  Serving serving;
  Client client{serving.address}, idle{serving.address};
  EXPECT_EQ(idle.wait(idle.call("/t.T/Echo", framed("x"))).body, framed("x"));
  const std::int32_t stream = client.call("/t.T/Stream", framed(""));
  ASSERT_TRUE(client.until([&] { return !client.answers[stream].body.empty(); }));
  serving.run([&] { serving.server->drain(); });
  EXPECT_TRUE(serving.until([&] { return serving.server->counters().open == 1; }));  // Without the idle one.
  serving.run([&] { (*serving.service.open.begin())->finish(GrpcStatus::kOk); });
  EXPECT_EQ(client.wait(stream).fields.at("grpc-status"), "0");
  EXPECT_TRUE(serving.until([&] { return serving.server->counters().open == 0; }));
}

TEST(GrpcServer, ADisconnectEndsConnectionsButNotTheirCallsAndAcceptsNewOnes) {
  Serving serving;
  Client client{serving.address}, idle{serving.address};
  EXPECT_EQ(idle.wait(idle.call("/t.T/Echo", framed("x"))).body, framed("x"));
  const std::int32_t stream = client.call("/t.T/Stream", framed(""));
  ASSERT_TRUE(client.until([&] { return !client.answers[stream].body.empty(); }));
  serving.run([&] { serving.server->disconnect(); });
  EXPECT_FALSE(idle.until([] { return false; }));
  EXPECT_TRUE(idle.closed);
  EXPECT_TRUE(serving.until([&] { return serving.server->counters().open == 1; })) << "the call goes on";
  Client next{serving.address};
  EXPECT_EQ(next.wait(next.call("/t.T/Echo", framed("y"))).body, framed("y"));
  serving.run([&] { (*serving.service.open.begin())->finish(GrpcStatus::kOk); });
  EXPECT_EQ(client.wait(stream).fields.at("grpc-status"), "0");
  EXPECT_FALSE(client.until([] { return false; }));
  EXPECT_TRUE(client.closed);
  EXPECT_EQ(next.wait(next.call("/t.T/Echo", framed("z"))).body, framed("z")) << "it came after the disconnect";
}

}  // namespace
}  // namespace penstock::net
