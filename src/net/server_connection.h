// One server connection: its input, the request in flight, and the response.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "net/address.h"
#include "net/server.h"
#include "net/server_core.h"
#include "net/server_exchange.h"
#include "net/tls.h"

namespace penstock::net {

// Between requests a connection holds no buffer: bytes are read into the server's scratch memory, and only incomplete
// heads and unsent output are stored. The input is in server_connection.cpp, the output in server_output.cpp.
class ServerConnection final : public Watcher {
 public:
  ServerConnection(ServerCore& core, int descriptor, const Address& peer, std::uint32_t slot);

  void begin();
  void detach();  // Ends the connection without any callback when the server is destroyed.
  [[nodiscard]] std::uint32_t slot() const { return slot_; }
  void set_slot(std::uint32_t slot) { slot_ = slot; }
  void on_ready(std::uint32_t events) override;
  void on_deadline();
  void resume();
  void drain();

  // For the exchange.
  [[nodiscard]] ServerCore& core() { return core_; }
  [[nodiscard]] bool client_verified() const { return transport_ && transport_->peer_verified(); }
  [[nodiscard]] bool is_busy() const { return phase_ == Phase::kBusy; }
  [[nodiscard]] bool all_sent() const { return out_.empty(); }
  // Sends what the socket takes and stores the rest. Returns false if bytes are stored.
  bool send(std::string_view first, std::string_view second = {});
  void end_exchange();
  void abort_answer(bool with_reset);

 private:
  enum class Phase : std::uint8_t {
    kHead,  // Waits for a request or the rest of its head.
    kBody,
    kBusy,     // The handler has the request.
    kClosing,  // Closes once the pending output is sent.
    // The write side is shut down, and input is read for a moment, because a reset would discard the response at the
    // client.
    kLinger,
    kClosed,
  };

  // Input.
  void read_input();
  void take_input(std::string_view bytes);
  bool advance_head(std::string_view& rest);
  void begin_body(std::string_view rest);
  bool advance_body(std::string_view& rest);
  // Asks the handler if the body is of a size that it decides about. Returns false if the body was refused.
  bool admit_body(std::uint64_t bytes);
  bool after_body_bytes(std::size_t bytes);
  void begin_exchange();
  [[nodiscard]] bool must_wait() const;  // Returns true if new bytes belong to a later request.
  void on_input_end();
  void begin_half_closed();
  void end_without_input();
  void on_lost();  // The client disconnected or timed out.
  // Runs an entry point of the connection. A failed allocation ends the connection.
  template <class Task>
  void contain(Task&& task);
  void handle(std::uint32_t events);
  void end_phase();  // The deadline of the phase has passed.

  // Output.
  void send_waiting();
  void on_all_sent();
  void refuse(int status, std::string_view fault);
  void refuse(int status, std::string_view body, std::uint32_t retry_after_s);
  void refuse_for_memory();
  void count_buffers();
  void begin_closing();
  void end_closing();
  void close();
  void release_request();

  void update_interest();
  void set_phase_deadline(core::Instant deadline);
  void set_write_deadline(core::Instant deadline);

  ServerCore& core_;
  std::optional<Transport> transport_;
  ServerExchange exchange_;
  std::string in_;   // An incomplete head or pipelined requests.
  std::string out_;  // Unsent output; the first sent_ bytes were sent since.
  std::size_t sent_ = 0, searched_ = 0;
  MemoryHold buffers_;  // Counts in_ and out_.
  core::Instant phase_deadline_ = core::kNever, write_deadline_ = core::kNever, read_at_, idle_since_;
  std::uint32_t slot_, interest_ = 0;
  Phase phase_ = Phase::kHead;
  bool head_begun_ = false, lingers_ = false, is_broken_ = false;
  bool read_wants_write_ = false, write_wants_read_ = false, resumes_ = false;
  bool is_half_closed_ = false;  // The client has ended its output, or has left.
  bool input_is_over_ = false;   // All of its output was read.
};

}  // namespace penstock::net
