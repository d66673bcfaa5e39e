#include "net/grpc_server.h"

#include <gtest/gtest.h>
#include <nghttp2/nghttp2.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "net/address.h"

namespace penstock::net {
namespace {

using namespace std::string_literals;

std::string framed(std::string_view message, char flag = 0) {
  std::string made{flag};
  for (int shift = 24; shift >= 0; shift -= 8) made.push_back(static_cast<char>(message.size() >> shift & 0xff));
  return made.append(message);
}

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

class Serving {
 public:
  explicit Serving(const GrpcLimits& limits = {}) {
    const auto listening = listen_on(Address{}, false);
    EXPECT_TRUE(listening);
    address = local_address(*listening);
    server.emplace(loop, *listening, service, limits);
    thread = std::thread{[this] { loop.run(); }};
  }
  ~Serving() {
    loop.stop();
    thread.join();
  }
  Serving(const Serving&) = delete;
  Serving& operator=(const Serving&) = delete;

  void run(const std::function<void()>& task) {
    std::promise<void> done;
    loop.post([&] {
      task();
      done.set_value();
    });
    done.get_future().wait();
  }
  // Waits until the condition, which runs on the server's thread, is true.
  bool until(const std::function<bool()>& condition) {
    for (int i = 0; i < 1'000; ++i) {
      bool met = false;
      run([&] { met = condition(); });
      if (met) return true;
      usleep(10'000);
    }
    return false;
  }

  Loop loop;
  Service service;
  Address address;
  std::optional<GrpcServer> server;
  std::thread thread;
};

// A client whose HTTP/2 is that of the library, over a blocking socket.
class Client {
 public:
  struct Answer {
    std::map<std::string, std::string> fields;
    std::string body;
    bool ended = false;
    std::uint32_t error = 0;
  };

  explicit Client(const Address& address) : descriptor_{socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)} {
    const timeval limit{10, 0};
    setsockopt(descriptor_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    EXPECT_EQ(connect(descriptor_, static_cast<const sockaddr*>(address.data()), address.length()), 0);
    nghttp2_session_callbacks* callbacks = nullptr;
    nghttp2_session_callbacks_new(&callbacks);
    nghttp2_session_callbacks_set_on_header_callback(
        callbacks, [](nghttp2_session*, const nghttp2_frame* frame, const std::uint8_t* name, std::size_t name_size,
                      const std::uint8_t* value, std::size_t value_size, std::uint8_t, void* data) {
          static_cast<Client*>(data)->answers[frame->hd.stream_id].fields[{
              reinterpret_cast<const char*>(name), name_size}] = {reinterpret_cast<const char*>(value), value_size};
          return 0;
        });
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(
        callbacks, [](nghttp2_session*, std::uint8_t, std::int32_t stream, const std::uint8_t* bytes, std::size_t size,
                      void* data) {
          static_cast<Client*>(data)->answers[stream].body.append(reinterpret_cast<const char*>(bytes), size);
          return 0;
        });
    nghttp2_session_callbacks_set_on_stream_close_callback(
        callbacks, [](nghttp2_session*, std::int32_t stream, std::uint32_t error, void* data) {
          static_cast<Client*>(data)->answers[stream].ended = true;
          static_cast<Client*>(data)->answers[stream].error = error;
          return 0;
        });
    nghttp2_session_client_new(&session_, callbacks, this);
    nghttp2_session_callbacks_del(callbacks);
    nghttp2_submit_settings(session_, NGHTTP2_FLAG_NONE, nullptr, 0);
  }
  ~Client() {
    nghttp2_session_del(session_);
    close(descriptor_);
  }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  std::int32_t call(std::string_view path, std::string body, std::string_view type = "application/grpc",
                    bool ends = true) {
    bodies_.push_back(std::make_unique<Body>(Body{std::move(body), 0, ends}));
    const auto nv = [](std::string_view name, std::string_view value) {
      const auto bytes = [](std::string_view text) {
        return reinterpret_cast<std::uint8_t*>(const_cast<char*>(text.data()));
      };
      return nghttp2_nv{bytes(name), bytes(value), name.size(), value.size(), NGHTTP2_NV_FLAG_NONE};
    };
    const nghttp2_nv fields[] = {nv(":method", "POST"), nv(":scheme", "http"),    nv(":path", path),
                                 nv(":authority", "t"), nv("content-type", type), nv("te", "trailers")};
    nghttp2_data_provider source{};
    source.source.ptr = bodies_.back().get();
    source.read_callback = [](nghttp2_session*, std::int32_t, std::uint8_t* into, std::size_t size,
                              std::uint32_t* flags, nghttp2_data_source* from, void*) -> ssize_t {
      Body& given = *static_cast<Body*>(from->ptr);
      const std::size_t count = std::min(size, given.text.size() - given.sent);
      if (count == 0 && !given.ends) return NGHTTP2_ERR_DEFERRED;
      std::memcpy(into, given.text.data() + given.sent, count);
      given.sent += count;
      if (given.sent == given.text.size() && given.ends) *flags |= NGHTTP2_DATA_FLAG_EOF;
      return static_cast<ssize_t>(count);
    };
    return nghttp2_submit_request(session_, nullptr, fields, std::size(fields), &source, nullptr);
  }

  void cancel(std::int32_t stream) { nghttp2_submit_rst_stream(session_, NGHTTP2_FLAG_NONE, stream, NGHTTP2_CANCEL); }

  // Sends everything, in pieces of this size.
  void flush(std::size_t piece = SIZE_MAX) {
    const std::uint8_t* bytes = nullptr;
    while (true) {
      const ssize_t size = nghttp2_session_mem_send(session_, &bytes);
      if (size <= 0) return;
      for (std::size_t at = 0; at < static_cast<std::size_t>(size); at += std::min(piece, size - at))
        if (send(descriptor_, bytes + at, std::min(piece, size - at), MSG_NOSIGNAL) < 0) return;
    }
  }
  // Receives until the condition is true or the connection ends. Returns whether it is true.
  bool until(const std::function<bool()>& condition) {
    flush();
    std::uint8_t bytes[4096];
    while (!condition()) {
      const ssize_t size = recv(descriptor_, bytes, sizeof bytes, 0);
      if (size <= 0) return closed = size == 0 || errno == ECONNRESET, false;
      if (nghttp2_session_mem_recv(session_, bytes, static_cast<std::size_t>(size)) < 0) return false;
      flush();
    }
    return true;
  }
  Answer& wait(std::int32_t stream) {
    until([&] { return answers[stream].ended; });
    return answers[stream];
  }
  void send_raw(std::string_view bytes) { send(descriptor_, bytes.data(), bytes.size(), MSG_NOSIGNAL); }

  std::map<std::int32_t, Answer> answers;
  bool closed = false;

 private:
  struct Body {
    std::string text;
    std::size_t sent;
    bool ends;
  };
  int descriptor_;
  nghttp2_session* session_ = nullptr;
  std::vector<std::unique_ptr<Body>> bodies_;
};

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
