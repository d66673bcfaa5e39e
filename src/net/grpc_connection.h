// One HTTP/2 connection of a gRPC server: its session, its calls, and the output that the socket has not taken.
#pragma once

#include <nghttp2/nghttp2.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "core/time.h"
#include "net/grpc_server.h"
#include "net/loop.h"
#include "net/tls.h"

namespace penstock::net {

// What the connections of one server share.
struct GrpcShared {
  Loop& loop;
  GrpcHandler& handler;
  const GrpcLimits limits;
  std::shared_ptr<TlsContext> tls;
  GrpcCounters counters;
  bool draining = false;
};

class GrpcConnection final : public Watcher {
 public:
  // `retire` is called once, when the connection has ended; the object must outlive the current call.
  GrpcConnection(GrpcShared& shared, int descriptor, std::function<void(const GrpcConnection&)> retire);
  ~GrpcConnection();  // The handler is not called.
  GrpcConnection(const GrpcConnection&) = delete;
  GrpcConnection& operator=(const GrpcConnection&) = delete;

  void on_ready(std::uint32_t events) override;
  // Announces the end. Calls that the client starts before it knows of the end are served, too.
  void drain();
  void check_deadlines();

 private:
  class Call;

  static nghttp2_session_callbacks* callbacks();
  int on_begin_headers(const nghttp2_frame& frame);
  int on_header(const nghttp2_frame& frame, std::string_view name, std::string_view value);
  int on_frame(const nghttp2_frame& frame);
  int on_data(std::int32_t stream, std::string_view bytes);
  int on_sent(const nghttp2_frame& frame);
  int on_closed(std::int32_t stream);
  int on_send_data(const std::uint8_t* head, std::size_t size, Call& call);
  [[nodiscard]] Call* find(std::int32_t stream);

  void read();
  void flush();         // Sends what the session wants to send.
  void flush_soon();    // The same once no function of a handler is on the stack.
  void refuse_calls();  // The client knows of the end.
  void close();

  GrpcShared& shared_;
  Transport transport_;
  std::function<void(const GrpcConnection&)> retire_;
  nghttp2_session* session_ = nullptr;
  std::map<std::int32_t, std::unique_ptr<Call>> calls_;
  std::string out_;         // Unsent output.
  std::size_t stored_ = 0;  // Bytes of messages that calls store.
  std::uint32_t interest_ = 0;
  core::Instant deadline_;  // Of the start, then of unsent output.
  Loop::Timer flush_timer_ = 0;
  bool started_ = false, in_read_ = false, read_wants_write_ = false, closed_ = false;
  std::optional<core::Instant> notice_deadline_;  // The client is to answer the announcement of the end.
  bool ends_ = false;                             // Once its calls have ended.
};

}  // namespace penstock::net
