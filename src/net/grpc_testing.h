// A gRPC server on a thread of its own and a client for tests.
#pragma once

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <nghttp2/nghttp2.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <functional>
#include <future>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "net/address.h"
#include "net/grpc_server.h"
#include "net/loop.h"
#include "net/tls.h"

namespace penstock::net::testing {

inline std::string framed(std::string_view message, char flag = 0) {
  std::string made{flag};
  for (int shift = 24; shift >= 0; shift -= 8) made.push_back(static_cast<char>(message.size() >> shift & 0xff));
  return made.append(message);
}

// A server on a thread of its own. The service may take the loop.
template <typename Service>
class GrpcServing {
 public:
  explicit GrpcServing(const GrpcLimits& limits = {}, std::shared_ptr<TlsContext> tls = nullptr) {
    const auto listening = listen_on(Address{}, false);
    EXPECT_TRUE(listening);
    address = local_address(*listening);
    server.emplace(loop, *listening, service, limits, std::move(tls));
    thread = std::thread{[this] { loop.run(); }};
  }
  ~GrpcServing() {
    loop.stop();
    thread.join();
  }
  GrpcServing(const GrpcServing&) = delete;
  GrpcServing& operator=(const GrpcServing&) = delete;

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
  Service service{make(loop)};
  Address address;
  std::optional<GrpcServer> server;
  std::thread thread;

 private:
  static Service make(Loop& loop) {
    if constexpr (std::is_constructible_v<Service, Loop&>)
      return Service{loop};
    else
      return Service{};
  }
};

// A client whose HTTP/2 is that of the library, over a blocking socket.
class GrpcClient {
 public:
  struct Answer {
    std::map<std::string, std::string> fields;
    std::string body;
    bool ended = false;
    std::uint32_t error = 0;
  };

  explicit GrpcClient(const Address& address) : descriptor_{socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)} {
    const int on = 1;
    setsockopt(descriptor_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    const timeval limit{10, 0};
    setsockopt(descriptor_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    EXPECT_EQ(::connect(descriptor_, static_cast<const sockaddr*>(address.data()), address.length()), 0);
    nghttp2_session_callbacks* callbacks = nullptr;
    nghttp2_session_callbacks_new(&callbacks);
    nghttp2_session_callbacks_set_on_header_callback(
        callbacks, [](nghttp2_session*, const nghttp2_frame* frame, const std::uint8_t* name, std::size_t name_size,
                      const std::uint8_t* value, std::size_t value_size, std::uint8_t, void* data) {
          static_cast<GrpcClient*>(data)->answers[frame->hd.stream_id].fields[{
              reinterpret_cast<const char*>(name), name_size}] = {reinterpret_cast<const char*>(value), value_size};
          return 0;
        });
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(
        callbacks, [](nghttp2_session*, std::uint8_t, std::int32_t stream, const std::uint8_t* bytes, std::size_t size,
                      void* data) {
          GrpcClient& self = *static_cast<GrpcClient*>(data);
          self.answers[stream].body.append(reinterpret_cast<const char*>(bytes), size);
          nghttp2_session_consume_connection(self.session_, size);
          if (!self.slow.contains(stream))
            nghttp2_session_consume_stream(self.session_, stream, size);
          else
            self.withheld_[stream] += size;
          return 0;
        });
    nghttp2_session_callbacks_set_on_stream_close_callback(
        callbacks, [](nghttp2_session*, std::int32_t stream, std::uint32_t error, void* data) {
          static_cast<GrpcClient*>(data)->answers[stream].ended = true;
          static_cast<GrpcClient*>(data)->answers[stream].error = error;
          return 0;
        });
    nghttp2_option* option = nullptr;
    nghttp2_option_new(&option);
    nghttp2_option_set_no_auto_window_update(option, 1);
    nghttp2_session_client_new2(&session_, callbacks, this, option);
    nghttp2_option_del(option);
    nghttp2_session_callbacks_del(callbacks);
    nghttp2_submit_settings(session_, NGHTTP2_FLAG_NONE, nullptr, 0);
  }
  ~GrpcClient() {
    nghttp2_session_del(session_);
    close(descriptor_);
  }
  GrpcClient(const GrpcClient&) = delete;
  GrpcClient& operator=(const GrpcClient&) = delete;

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
    const std::int32_t stream = nghttp2_submit_request(session_, nullptr, fields, std::size(fields), &source, nullptr);
    of_stream_[stream] = bodies_.back().get();
    return stream;
  }
  // Continues a call that was made without an end.
  void more(std::int32_t stream, std::string_view body, bool ends = false) {
    of_stream_.at(stream)->text += body;
    of_stream_.at(stream)->ends = ends;
    nghttp2_session_resume_data(session_, stream);
  }
  // What the server's windows have not taken.
  std::size_t unsent(std::int32_t stream) const {
    return of_stream_.at(stream)->text.size() - of_stream_.at(stream)->sent;
  }
  std::uint32_t server_window() const {
    return nghttp2_session_get_remote_settings(session_, NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE);
  }
  // Reads a call that was in `slow`.
  void read_again(std::int32_t stream) {
    slow.erase(stream);
    nghttp2_session_consume_stream(session_, stream, std::exchange(withheld_[stream], 0));
  }

  void cancel(std::int32_t stream) { nghttp2_submit_rst_stream(session_, NGHTTP2_FLAG_NONE, stream, NGHTTP2_CANCEL); }

  // Sends everything, in pieces of this size.
  void flush(std::size_t piece = SIZE_MAX) {
    const std::uint8_t* bytes = nullptr;
    while (true) {
      const ssize_t size = nghttp2_session_mem_send(session_, &bytes);
      if (size <= 0) return;
      for (std::size_t at = 0; at < static_cast<std::size_t>(size); at += std::min(piece, size - at))
        if (::send(descriptor_, bytes + at, std::min(piece, size - at), MSG_NOSIGNAL) < 0) return;
    }
  }
  // Receives until the condition is true or the connection ends. Returns whether it is true.
  bool until(const std::function<bool()>& condition) {
    flush();
    std::uint8_t bytes[65536];
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
  void send_raw(std::string_view bytes) { ::send(descriptor_, bytes.data(), bytes.size(), MSG_NOSIGNAL); }

  std::map<std::int32_t, Answer> answers;
  std::set<std::int32_t> slow;  // Calls whose windows are not returned.
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
  std::map<std::int32_t, Body*> of_stream_;
  std::map<std::int32_t, std::size_t> withheld_;
};

}  // namespace penstock::net::testing
