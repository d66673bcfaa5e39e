// The socket of a server's connection, its unsent output, its deadlines, and the memory that its buffers take.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/time.h"
#include "net/loop.h"
#include "net/memory_budget.h"
#include "net/server_core.h"
#include "net/tls.h"

namespace penstock::net {

class ServerSocket : public Watcher {
 public:
  [[nodiscard]] ServerCore& core() { return core_; }
  [[nodiscard]] std::uint32_t slot() const { return slot_; }
  void set_slot(std::uint32_t slot) { slot_ = slot; }
  [[nodiscard]] bool client_verified() const { return transport_ && transport_->peer_verified(); }
  [[nodiscard]] std::string client_name() const { return transport_ ? transport_->peer_name() : std::string{}; }
  [[nodiscard]] bool all_sent() const { return out_.empty(); }
  // Sends what the socket takes and stores the rest. Returns false if bytes are stored.
  bool send(std::string_view first, std::string_view second = {});

 protected:
  ServerSocket(ServerCore& core, int descriptor, std::uint32_t slot)
      : core_{core}, transport_{std::in_place, descriptor, core.tls}, slot_{slot} {}
  ~ServerSocket() = default;

  // Output was stored, so that the buffers have grown and the socket is to be watched for room.
  virtual void on_output_stored() = 0;
  // The connection cannot go on. This is handled later, because the writing handler is on the stack.
  virtual void break_off() = 0;

  enum class Flushed : std::uint8_t { kAll, kSome, kLost };
  [[nodiscard]] Flushed flush();  // Sends stored output.
  void drop_output();
  // Counts the unsent output and an input buffer. A connection that holds more than the budget allows is cut, because
  // its output cannot be dropped.
  void count_buffers(std::size_t input_capacity, MemoryAccount* payer);
  void watch(std::uint32_t wanted);  // Called once.
  void set_interest(std::uint32_t wanted);
  void set_phase_deadline(core::Instant deadline) {
    phase_deadline_ = deadline;
    core_.set_deadline(slot_, std::min(phase_deadline_, write_deadline_));
  }
  void set_write_deadline(core::Instant deadline) {
    write_deadline_ = deadline;
    core_.set_deadline(slot_, std::min(phase_deadline_, write_deadline_));
  }

  ServerCore& core_;
  std::optional<Transport> transport_;
  core::Instant phase_deadline_ = core::kNever, write_deadline_ = core::kNever;
  bool is_broken_ = false, write_wants_read_ = false;

 private:
  std::string out_;  // Unsent output; the first sent_ bytes were sent since.
  std::size_t sent_ = 0;
  MemoryHold buffers_;
  std::uint32_t slot_, interest_ = 0;
};

}  // namespace penstock::net
