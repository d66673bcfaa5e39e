#include "net/server_socket.h"

#include <utility>

namespace penstock::net {

bool ServerSocket::send(std::string_view first, std::string_view second) {
  if (is_broken_) return false;
  if (!out_.empty()) {
    if (sent_ > out_.size() / 2) out_.erase(0, std::exchange(sent_, 0));
    out_.append(first).append(second);
    on_output_stored();
    return false;
  }
  if (first.empty()) std::swap(first, second);
  if (first.empty()) return true;
  const Transport::Transfer put = transport_->write(first, second);
  write_wants_read_ = put.wants_read;
  if (put.failed || put.closed) {
    break_off();
    return false;
  }
  if (put.bytes == first.size() + second.size()) return true;
  if (put.bytes < first.size())
    out_.append(first.substr(put.bytes)).append(second);
  else
    out_.append(second.substr(put.bytes - first.size()));
  sent_ = 0;
  set_write_deadline(core_.loop.now() + core_.limits.write_time);
  on_output_stored();
  return false;
}

ServerSocket::Flushed ServerSocket::flush() {
  const Transport::Transfer put = transport_->write(std::string_view{out_}.substr(sent_));
  write_wants_read_ = put.wants_read;
  if (put.failed || put.closed) return Flushed::kLost;
  sent_ += put.bytes;
  if (sent_ < out_.size()) {
    if (put.bytes > 0) set_write_deadline(core_.loop.now() + core_.limits.write_time);
    return Flushed::kSome;
  }
  std::string{}.swap(out_);
  sent_ = 0;
  set_write_deadline(core::kNever);
  return Flushed::kAll;
}

void ServerSocket::drop_output() {
  std::string{}.swap(out_);
  buffers_.release();
}

void ServerSocket::count_buffers(std::size_t input_capacity, MemoryAccount* payer) {
  const std::size_t bytes = counted_bytes(input_capacity) + counted_bytes(out_.capacity());
  if (bytes == buffers_.bytes()) return;
  if (buffers_.bytes() == 0) buffers_ = MemoryHold{payer != nullptr ? *payer : core_.memory->unattributed()};
  if (buffers_.resize(bytes)) return;
  ++core_.counters.out_of_memory;
  break_off();
}

void ServerSocket::watch(std::uint32_t wanted) {
  interest_ = wanted;
  core_.loop.watch(transport_->descriptor(), wanted, *this);
}

void ServerSocket::set_interest(std::uint32_t wanted) {
  if (wanted == interest_) return;
  interest_ = wanted;
  core_.loop.change(transport_->descriptor(), wanted, *this);
}

}  // namespace penstock::net
