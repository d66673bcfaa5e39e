#include "net/grpc_framing.h"

namespace penstock::net {
namespace {

constexpr std::size_t kKeptBytes = 4 * 1024;

std::size_t framed_size(std::string_view prefix) {
  std::uint32_t length = 0;
  for (std::size_t i = 1; i < kGrpcPrefixBytes; ++i) length = length << 8 | static_cast<std::uint8_t>(prefix[i]);
  return kGrpcPrefixBytes + length;
}

}  // namespace

GrpcMessageReader::State GrpcMessageReader::check(std::string_view prefix) const {
  if (prefix[0] != 0) return State::kCompressed;
  return framed_size(prefix) > kGrpcPrefixBytes + message_bytes_max_ ? State::kTooLarge : State::kMessage;
}

GrpcMessageReader::State GrpcMessageReader::next(std::string_view& bytes) {
  if (is_complete_) clear_grpc_buffer(part_);
  is_complete_ = false;
  if (part_.empty() && bytes.size() >= kGrpcPrefixBytes) {
    if (const State state = check(bytes); state != State::kMessage) return state;
    if (const std::size_t size = framed_size(bytes); size <= bytes.size()) {
      message_ = bytes.substr(kGrpcPrefixBytes, size - kGrpcPrefixBytes);
      bytes.remove_prefix(size);
      return State::kMessage;
    }
  }
  const auto take_until = [&](std::size_t size) {
    const std::string_view piece = bytes.substr(0, size - part_.size());
    part_ += piece;
    bytes.remove_prefix(piece.size());
    return part_.size() == size;
  };
  if (part_.size() < kGrpcPrefixBytes) {
    if (!take_until(kGrpcPrefixBytes)) return State::kMore;
    if (const State state = check(part_); state != State::kMessage) return state;
  }
  if (!take_until(framed_size(part_))) return State::kMore;
  is_complete_ = true;
  message_ = std::string_view{part_}.substr(kGrpcPrefixBytes);
  return State::kMessage;
}

void append_grpc_message(std::string& out, std::string_view message) {
  const auto length = static_cast<std::uint32_t>(message.size());
  out.push_back(0);
  for (int shift = 24; shift >= 0; shift -= 8) out.push_back(static_cast<char>(length >> shift & 0xff));
  out += message;
}

std::string encode_grpc_text(std::string_view text) {
  constexpr char kDigits[] = "0123456789ABCDEF";
  std::string encoded;
  for (const char c : text) {
    const auto byte = static_cast<std::uint8_t>(c);
    if (byte >= 0x20 && byte <= 0x7e && c != '%')
      encoded += c;
    else
      encoded.append({'%', kDigits[byte >> 4], kDigits[byte & 15]});
  }
  return encoded;
}

void clear_grpc_buffer(std::string& buffer) {
  buffer.clear();
  if (buffer.capacity() > kKeptBytes) buffer = std::string{};
}

}  // namespace penstock::net
