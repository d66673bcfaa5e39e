// An HTTP/1.1 client on one loop: pooled connections, streamed answers, backpressure, cancelling.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "core/time.h"
#include "net/address.h"
#include "net/http.h"
#include "net/loop.h"

namespace penstock::net {

class TlsContext;

struct ClientLimits {
  std::size_t head_bytes = 64 * 1024;
  std::uint32_t idle_connections = 256;                   // kept for each address
  core::Duration connect_time = std::chrono::seconds{5};  // TLS included
  core::Duration idle_time = std::chrono::seconds{50};    // that a connection is kept unused: less than servers do
};

enum class ClientFault : std::uint8_t {
  kConnect,    // nobody there, or no TLS
  kTimeout,    // of TLS, the head or the silence within the body
  kClosed,     // ended before the answer was whole
  kMalformed,  // not HTTP
};
[[nodiscard]] const char* to_string(ClientFault fault);

// Exactly one of on_end() and on_fault() comes, and it is the last call; none comes after cancel().
class ResponseListener {
 public:
  virtual void on_head(const ResponseHead& head) = 0;  // 1xx are skipped; the views hold during the call
  // Raw: the bytes as they came, with the framing of chunks. Else: the payload.
  virtual void on_body(std::string_view bytes) = 0;
  virtual void on_end() = 0;
  // `answered`: some of the answer had come.
  virtual void on_fault(ClientFault fault, bool answered) = 0;

 protected:
  ~ResponseListener() = default;
};

struct CallOptions {
  Address address;
  std::shared_ptr<TlsContext> tls;                      // null: plain
  std::string host;                                     // for TLS
  bool raw = false;                                     // see on_body
  core::Duration head_time = std::chrono::minutes{10};  // from the call until the head of the answer is there
  core::Duration silence = std::chrono::minutes{10};    // that may lie between two pieces of the body
};

// An answer that is awaited. Gone after on_end(), on_fault() or cancel(), all on the loop's thread.
class Call {
 public:
  virtual void cancel() = 0;  // closes the connection, which is what tells the server
  virtual void pause() = 0;   // reads nothing more (what has been read still comes) until …
  virtual void resume() = 0;

 protected:
  ~Call() = default;
};

class Client {
 public:
  explicit Client(Loop& loop, const ClientLimits& limits = {});
  ~Client();  // cancels all calls
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  // Sends the request, head and body as they are. Both must stay until the listener is first called; body may be large.
  // What has not been sent by then is not sent any more. Bytes behind the end of an answer are dropped with the connection.
  // A kept connection that turns out to be closed before any byte of the answer is replaced by a fresh one, once. The
  // listener is never called during this call.
  Call& call(const CallOptions& options, std::string_view head, std::string_view body, ResponseListener& listener);

  [[nodiscard]] std::uint32_t open_connections() const;
  void close_idle(const Address& address);  // of a server that is gone

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace penstock::net
