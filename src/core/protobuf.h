// The wire format of Protocol Buffers, for messages of a few fields.
// Source: https://protobuf.dev/programming-guides/encoding/
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace penstock::core::protobuf {

struct Field {
  std::uint32_t number = 0;
  std::uint64_t value = 0;  // Of varints and of numbers of fixed size.
  std::string_view bytes;   // Of strings and messages.
};

// Reads the fields of a message one after the other.
class Reader {
 public:
  explicit Reader(std::string_view message) : rest_{message} {}

  // Returns nothing at the end and after a malformed field; is_valid() tells them apart.
  [[nodiscard]] std::optional<Field> next();
  [[nodiscard]] bool is_valid() const { return valid_; }

 private:
  std::optional<std::uint64_t> varint();
  std::optional<std::uint64_t> fixed(std::size_t size);

  std::string_view rest_;
  bool valid_ = true;
};

// Writes fields at the end of a message.
class Writer {
 public:
  void varint(std::uint32_t number, std::uint64_t value);
  void real(std::uint32_t number, double value);
  void bytes(std::uint32_t number, std::string_view value);
  void signed_varint(std::uint32_t number, std::int64_t value);                     // sint32 and sint64.
  void signed_varints(std::uint32_t number, std::span<const std::int64_t> values);  // Packed; nothing if empty.
  [[nodiscard]] const std::string& message() const& { return message_; }
  [[nodiscard]] std::string message() && { return std::move(message_); }

 private:
  std::string message_;
};

// For messages that are written into one string from the outside to the inside, so that long bytes are copied once: the
// size of a field that holds so many bytes, and what precedes them.
[[nodiscard]] std::size_t bytes_field_size(std::uint32_t number, std::size_t size);
void append_bytes_head(std::string& message, std::uint32_t number, std::size_t size);

// Appends the message after its length, as streams of messages have it.
void append_delimited(std::string& stream, std::string_view message);

}  // namespace penstock::core::protobuf
