// One server connection: its input, the request in flight, and the response.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "net/address.h"
#include "net/server.h"
#include "net/server_core.h"
#include "net/server_exchange.h"
#include "net/server_socket.h"

namespace penstock::net {

// Between requests a connection holds no buffer: bytes are read into the server's scratch memory, and only incomplete
// heads and unsent output are stored. The input is in server_connection.cpp, the output in server_output.cpp.
class ServerConnection final : public ServerSocket {
 public:
  ServerConnection(ServerCore& core, int descriptor, const Address& peer, std::uint32_t slot);

  void begin();
  void detach();  // Ends the connection without any callback when the server is destroyed.
  void on_ready(std::uint32_t events) override;
  void on_deadline();
  void resume();
  void drain();
  void on_no_memory();  // An allocation failed within a call of this object.

  // For the exchange.
  [[nodiscard]] bool is_busy() const { return phase_ == Phase::kBusy; }
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
  bool admit_body(std::uint64_t bytes);  // Returns false if the body was refused.
  bool after_body_bytes(std::size_t bytes);
  void begin_exchange();
  void begin_idle();                     // The answer to the last request is sent.
  [[nodiscard]] bool must_wait() const;  // Returns true if new bytes belong to a later request.
  void on_input_end();
  void begin_half_closed();
  void end_without_input();
  void on_lost();  // The client disconnected or timed out.
  void handle(std::uint32_t events);

  // Output.
  void send_waiting();
  void on_all_sent();
  void refuse(int status, std::string_view fault);
  void refuse(int status, std::string_view body, std::vector<Field> fields);
  void refuse_for_memory();
  void on_output_stored() override { update_watch(); }
  void break_off() override;
  void resume_soon();
  void begin_closing();
  void end_closing();
  void close();
  void release_request();

  void update_watch();  // Counts the buffers, and watches the socket for what the phase needs.

  ServerExchange exchange_;
  std::string in_;  // An incomplete head or pipelined requests.
  std::size_t searched_ = 0;
  core::Instant read_at_, idle_since_;
  Phase phase_ = Phase::kHead;
  bool head_begun_ = false, lingers_ = false, read_wants_write_ = false, resumes_ = false;
  bool is_half_closed_ = false;  // The client has ended its output, or has left.
  bool input_is_over_ = false;   // All of its output was read.
};

}  // namespace penstock::net
