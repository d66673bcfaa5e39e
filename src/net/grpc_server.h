// gRPC server on one event loop: HTTP/2 by libnghttp2, in clear text with prior knowledge or by TLS with ALPN "h2".
// Source: https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "core/time.h"
#include "net/loop.h"

namespace penstock::net {

class TlsContext;

// The codes of grpc-status that servers of this project send.
enum class GrpcStatus : std::uint8_t {
  kOk = 0,
  kInvalidArgument = 3,
  kNotFound = 5,
  kResourceExhausted = 8,
  kUnimplemented = 12,
  kInternal = 13,
  kUnavailable = 14,
};

// One call, owned by its connection. It is invalid after finish() and GrpcHandler::on_gone(). All functions belong
// to the loop's thread.
class GrpcCall {
 public:
  [[nodiscard]] virtual std::string_view path() const = 0;  // "/package.Service/Method".
  // Sends a message. The bytes that the client's window does not take are stored; see GrpcLimits::call_unsent_bytes.
  virtual void send(std::string_view message) = 0;
  [[nodiscard]] virtual std::size_t unsent() const = 0;  // Bytes stored. Streams wait until it is 0.
  // Ends the call after the stored messages. The text explains a status other than kOk to the caller.
  virtual void finish(GrpcStatus status, std::string_view text = {}) = 0;

 protected:
  ~GrpcCall() = default;
};

class GrpcHandler {
 public:
  // A message of the client. `is_first` is true for the first message of a call.
  virtual void on_message(GrpcCall& call, std::string_view message, bool is_first) = 0;
  // The client has sent its last message. The call goes on until the handler finishes it.
  virtual void on_half_closed(GrpcCall&) {}
  virtual void on_gone(GrpcCall& call) = 0;  // The client has cancelled the call or has left.

 protected:
  ~GrpcHandler() = default;
};

struct GrpcLimits {
  std::uint32_t connections = 1'000;      // Further connections are closed at once.
  std::uint32_t calls = 256;              // At a time on one connection; HTTP/2 announces it.
  std::size_t message_bytes = 64 * 1024;  // A larger message ends its call: kResourceExhausted.
  // Of one connection; a connection that stores more is closed. A server that answers each message with as much allows
  // `calls` x `call_unsent_bytes`, and limits slow clients by the latter.
  std::size_t unsent_bytes = 256 * 1024;
  // The server returns no HTTP/2 window to a call that stores more, until the client has read. Such a call stores at
  // most the answers to one window and one message in addition.
  std::size_t call_unsent_bytes = 256 * 1024;
  std::uint32_t window_bytes = 65'535;  // Of each call: what a client may send before the server has read it.
  core::Duration start_time = std::chrono::seconds{10};  // Time limit for TLS and the first frame.
  core::Duration write_time = std::chrono::seconds{30};  // Time limit for a client that reads nothing.
};

struct GrpcCounters {
  std::uint64_t accepted = 0, refused = 0, calls = 0, malformed = 0, timed_out = 0;
  std::uint32_t open = 0;  // Connections.
};

// Serves one listening socket, which it owns. The loop must outlive the server.
class GrpcServer {
 public:
  GrpcServer(Loop& loop, int listening, GrpcHandler& handler, const GrpcLimits& limits = {},
             std::shared_ptr<TlsContext> tls = nullptr);
  ~GrpcServer();  // Closes all connections; the handler is not called.
  GrpcServer(const GrpcServer&) = delete;
  GrpcServer& operator=(const GrpcServer&) = delete;

  void set_tls(std::shared_ptr<TlsContext> tls);  // For connections that are accepted later.
  // Announces the end of all connections; each closes once its calls have ended, also those that its client starts
  // before it receives the announcement. New connections are accepted.
  void disconnect();
  // Stops listening and announces the end; a connection closes once its calls have ended.
  void drain();
  [[nodiscard]] const GrpcCounters& counters() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace penstock::net
