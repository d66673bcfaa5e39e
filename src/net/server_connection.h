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
#include "net/tls.h"

namespace penstock::net {

// Between requests it holds no buffer: bytes are read into the server's scratch memory, and only the start of a head and
// what the socket did not take are kept. Its input is in server_connection.cpp, its output in server_answer.cpp.
class ServerConnection final : public Watcher, public Exchange {
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

  [[nodiscard]] const RequestHead& head() const override { return request_->head; }
  [[nodiscard]] std::string_view body() const override { return request_->body; }
  [[nodiscard]] std::string take_body() override { return std::move(request_->body); }
  void take_body(std::string& into) override {
    into.swap(request_->body);
    request_->body.clear();
  }
  [[nodiscard]] std::string_view peer() const override;
  [[nodiscard]] core::Instant received_at() const override { return request_->received_at; }
  void listen(ExchangeListener* listener) override { listener_ = listener; }
  void respond(int status, std::span<const Field> fields, std::string_view body) override;
  void start(int status, std::span<const Field> fields, std::optional<std::uint64_t> content_length) override;
  bool write(std::string_view payload) override;
  bool flush() override;
  void finish() override;
  void start_raw(std::string_view head, bool close_after) override;
  bool write_raw(std::string_view bytes) override;
  void abort() override;

 private:
  enum class Phase : std::uint8_t {
    kHead,  // waits for a request, or for the rest of its head
    kBody,
    kBusy,     // the handler has the request
    kClosing,  // once what waits has been sent
    kLinger,   // its side is shut: reads on for a moment, since a reset would take the answer from the client
    kClosed,
  };
  enum class Framing : std::uint8_t { kNone, kChunked, kLength, kUntilClose, kRaw, kRawUnchunked, kSilent };

  // Input.
  void read_input();
  void take_input(std::string_view bytes);
  void keep(std::string_view rest, std::string& held);
  bool make_room_in_body();
  bool advance(std::string_view& rest);
  bool advance_head(std::string_view& rest);
  void begin_body(std::string_view rest);
  bool advance_body(std::string_view& rest);
  bool count_body(std::size_t bytes);
  void begin_exchange();
  void end_exchange();
  [[nodiscard]] bool must_wait() const;  // whether bytes that come now are for later
  void on_input_end();
  void on_lost();  // the client is gone, or as good as

  // Output.
  void append_head(std::string& out, int status, std::span<const Field> fields, std::optional<std::uint64_t> length);
  void append_connection(std::string& out) const;
  bool send_body(std::string_view payload);
  bool send(std::string_view first, std::string_view second = {});
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
  std::unique_ptr<Request> request_;  // from the end of its head on
  ExchangeListener* listener_ = nullptr;
  std::string in_;   // the start of a head, or requests that came too early
  std::string out_;  // what the socket did not take; sent_ of it has gone since
  std::size_t sent_ = 0, searched_ = 0;
  std::string answer_head_;  // waits for the first bytes of the body
  std::uint64_t answer_left_ = 0;
  std::unique_ptr<ChunkReader> answer_chunks_;  // where chunks are taken apart for a client of HTTP/1.0
  core::Instant phase_deadline_ = core::kNever, write_deadline_ = core::kNever, read_at_, opened_at_;
  std::uint32_t slot_, interest_ = 0;
  Phase phase_ = Phase::kHead;
  Framing framing_ = Framing::kNone;
  bool head_begun_ = false, closes_ = false, lingers_ = false, owes_writable_ = false, is_broken_ = false;
  bool read_wants_write_ = false, write_wants_read_ = false, was_used_ = false, resumes_ = false;
  bool ends_by_closing_ = false;  // the answer: its end is the connection's
  Address peer_;
  mutable std::string peer_text_;
};

}  // namespace penstock::net
