// One client connection and its current call.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "core/time.h"
#include "net/body_framing.h"
#include "net/client.h"
#include "net/intrusive_list.h"
#include "net/loop.h"
#include "net/tls.h"

namespace penstock::net {

class ClientPool;
struct ServerBucket;
struct InPool {};  // List of all connections: those with a call, and the idle ones by age.
// List of the idle connections of an address by last use, or of connections that wait for a deferred turn.
struct InBucket {};

// Owned by its pool, which decides after each call whether the connection is kept. It buffers only an incomplete
// response head; all other bytes go to the listener from the pool's scratch buffer.
class ClientConnection final : public Watcher, public Call, public ListHook<InPool>, public ListHook<InBucket> {
 public:
  ClientConnection(ClientPool& pool, ServerBucket& bucket, const CallOptions& options);
  ~ClientConnection();
  ClientConnection(const ClientConnection&) = delete;
  ClientConnection& operator=(const ClientConnection&) = delete;

  void start(const CallOptions& options, std::string_view head, std::string_view body, ResponseListener& listener);
  void take_turn();  // Runs the turn that ClientPool::defer() scheduled.
  void expire() { fault(phase_ == Phase::kConnecting ? ClientFault::kConnect : ClientFault::kTimeout); }
  [[nodiscard]] bool serves(const CallOptions& options) const;
  [[nodiscard]] ServerBucket& bucket() { return bucket_; }
  // Deadline of the call, or of the idle time.
  [[nodiscard]] core::Instant deadline() const { return deadline_; }
  void rest_until(core::Instant deadline);
  [[nodiscard]] bool is_idle() const { return phase_ == Phase::kIdle; }

  void cancel() override;
  void begun() override;
  bool release_request() override;
  void take_rest(const std::function<void(std::string_view)>& take, std::size_t bytes_max) override;
  void pause() override;
  void resume() override;
  void on_ready(std::uint32_t events) override;

 private:
  enum class Phase : std::uint8_t { kIdle, kConnecting, kHead, kBody };

  void connect();
  void send_at_once();
  void defer_failure();
  void disconnect();
  void update_deadline();
  [[nodiscard]] bool is_stale() const;
  bool finish_connect();
  void send();
  void receive(std::uint32_t events);
  void hold_back(std::uint32_t events);
  bool take(std::string_view bytes, bool is_last);
  [[nodiscard]] HeadState parse_head(std::string_view& bytes, std::string& owner);
  bool take_head(std::string_view& bytes, std::string& owner);
  bool take_body(std::string_view bytes, bool is_last);
  void begin_body(const ResponseHead& head);
  void end_of_stream(bool is_clean);
  void finish(bool may_keep);
  void fault(ClientFault fault);
  void update_interest();
  [[nodiscard]] bool has_unsent() const { return sent_ < head_.size() + body_.size(); }

  ClientPool& pool_;
  ServerBucket& bucket_;
  std::shared_ptr<TlsContext> tls_;
  std::string host_;
  std::optional<Transport> transport_;
  std::uint32_t interest_ = 0;  // Events that the loop watches; 0 means errors only.
  Phase phase_ = Phase::kIdle;
  int connect_error_ = 0;  // The system's error of the last attempt to connect.
  bool is_watched_ = false;
  bool is_established_ = false;  // Bytes have been written, so the TLS handshake is complete.
  bool is_broken_ = false;       // The peer accepts no more bytes.
  bool keeps_alive_ = false;     // The connection stays open after this response.
  bool wants_out_ = false;
  bool reads_ = true;  // The loop watches for input. False while paused with unread input.

  // State of the current call.
  bool is_reused_ = false;
  bool is_begun_ = false;  // See CallOptions::waits_for_begun.
  bool has_answer_ = false;
  bool is_paused_ = false;
  bool is_raw_ = false;
  bool to_head_ = false;
  ResponseListener* listener_ = nullptr;
  bool* is_gone_ = nullptr;  // Set to true if the object is destroyed during a call of the listener.
  std::string_view head_, body_;
  std::size_t sent_ = 0;
  core::Instant deadline_, head_deadline_, stale_until_;
  core::Duration silence_{0};
  std::string held_;  // An incomplete response head.
  BodyFraming framing_;
};

}  // namespace penstock::net
