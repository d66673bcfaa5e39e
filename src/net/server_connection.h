// One connection of a server: the bytes that come, the request under way, and the answer to it.
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

// Between requests it holds no buffer: bytes are read into the server's scratch memory, and only the start of a head and
// what the socket did not take are kept. Its input is in server_connection.cpp, its output in server_output.cpp.
class ServerConnection final : public Watcher {
 public:
  ServerConnection(ServerCore& core, int descriptor, const Address& peer, std::uint32_t slot);

  void begin();
  void detach();  // ends it without a call to anybody, when the server goes
  [[nodiscard]] std::uint32_t slot() const { return slot_; }
  void set_slot(std::uint32_t slot) { slot_ = slot; }
  void on_ready(std::uint32_t events) override;
  void on_deadline();
  void resume();
  void drain();

  // For the exchange.
  [[nodiscard]] ServerCore& core() { return core_; }
  [[nodiscard]] bool is_busy() const { return phase_ == Phase::kBusy; }
  [[nodiscard]] bool all_sent() const { return out_.empty(); }
  // Sends at once what the socket takes, and keeps the rest. False: some is kept.
  bool send(std::string_view first, std::string_view second = {});
  void end_exchange();
  void abort_answer(bool with_reset);

 private:
  enum class Phase : std::uint8_t {
    kHead,  // waits for a request, or for the rest of its head
    kBody,
    kBusy,     // the handler has the request
    kClosing,  // once what waits has been sent
    kLinger,   // its side is shut: reads on for a moment, since a reset would take the answer from the client
    kClosed,
  };

  // Input.
  void read_input();
  void take_input(std::string_view bytes);
  bool advance_head(std::string_view& rest);
  void begin_body(std::string_view rest);
  bool advance_body(std::string_view& rest);
  bool count_body(std::size_t bytes);
  void begin_exchange();
  [[nodiscard]] bool must_wait() const;  // whether bytes that come now are for later
  void on_input_end();
  void on_lost();  // the client is gone, or as good as

  // Output.
  void send_waiting();
  void on_all_sent();
  void refuse(int status, std::string_view fault);
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
  std::string in_;   // the start of a head, or requests that came too early
  std::string out_;  // what the socket did not take; sent_ of it has gone since
  std::size_t sent_ = 0, searched_ = 0;
  core::Instant phase_deadline_ = core::kNever, write_deadline_ = core::kNever, read_at_, opened_at_;
  std::uint32_t slot_, interest_ = 0;
  Phase phase_ = Phase::kHead;
  bool head_begun_ = false, lingers_ = false, is_broken_ = false;
  bool read_wants_write_ = false, write_wants_read_ = false, was_used_ = false, resumes_ = false;
};

}  // namespace penstock::net
