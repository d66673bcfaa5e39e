#include "core/protobuf.h"

namespace penstock::core::protobuf {
namespace {

enum WireType : std::uint8_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

void append_varint(std::string& to, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) to.push_back(static_cast<char>(value | 0x80));
  to.push_back(static_cast<char>(value));
}

std::size_t varint_size(std::uint64_t value) { return (static_cast<std::size_t>(std::bit_width(value | 1)) + 6) / 7; }

// Small numbers of either sign become small numbers.
std::uint64_t zigzag(std::int64_t value) {
  return static_cast<std::uint64_t>(value) << 1 ^ static_cast<std::uint64_t>(value >> 63);
}

}  // namespace

std::optional<std::uint64_t> Reader::varint() {
  std::uint64_t value = 0;
  for (unsigned shift = 0; shift < 64; shift += 7) {
    if (rest_.empty()) return std::nullopt;
    const auto byte = static_cast<std::uint8_t>(rest_.front());
    rest_.remove_prefix(1);
    value |= std::uint64_t{byte & 0x7fU} << shift;
    if ((byte & 0x80U) == 0) return value;
  }
  return std::nullopt;
}

std::optional<std::uint64_t> Reader::fixed(std::size_t size) {
  if (rest_.size() < size) return std::nullopt;
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < size; ++i) value |= std::uint64_t{static_cast<std::uint8_t>(rest_[i])} << 8 * i;
  rest_.remove_prefix(size);
  return value;
}

std::optional<Field> Reader::next() {
  if (!valid_ || rest_.empty()) return std::nullopt;
  valid_ = false;  // Until the field is complete.
  const auto tag = varint();
  if (!tag || *tag >> 3 == 0 || *tag >> 3 > 0x1fffffff) return std::nullopt;
  Field field;
  field.number = static_cast<std::uint32_t>(*tag >> 3);
  std::optional<std::uint64_t> value;
  switch (*tag & 7) {
    case kVarint: value = varint(); break;
    case kFixed64: value = fixed(8); break;
    case kFixed32: value = fixed(4); break;
    case kBytes: {
      value = varint();
      if (!value || *value > rest_.size()) return std::nullopt;
      field.bytes = rest_.substr(0, *value);
      rest_.remove_prefix(*value);
      break;
    }
    default: break;  // Groups, which no message of version 3 has.
  }
  if (!value) return std::nullopt;
  field.value = *value;
  valid_ = true;
  return field;
}

void Writer::varint(std::uint32_t number, std::uint64_t value) {
  append_varint(message_, std::uint64_t{number} << 3 | kVarint);
  append_varint(message_, value);
}

void Writer::real(std::uint32_t number, double value) {
  append_varint(message_, std::uint64_t{number} << 3 | kFixed64);
  const auto bits = std::bit_cast<std::uint64_t>(value);
  for (int shift = 0; shift < 64; shift += 8) message_.push_back(static_cast<char>(bits >> shift & 0xff));
}

void Writer::bytes(std::uint32_t number, std::string_view value) {
  append_bytes_head(message_, number, value.size());
  message_ += value;
}

void Writer::signed_varint(std::uint32_t number, std::int64_t value) { varint(number, zigzag(value)); }

void Writer::signed_varints(std::uint32_t number, std::span<const std::int64_t> values) {
  if (values.empty()) return;
  std::string packed;
  for (const std::int64_t value : values) append_varint(packed, zigzag(value));
  bytes(number, packed);
}

std::size_t bytes_field_size(std::uint32_t number, std::size_t size) {
  return varint_size(std::uint64_t{number} << 3) + varint_size(size) + size;
}

void append_bytes_head(std::string& message, std::uint32_t number, std::size_t size) {
  append_varint(message, std::uint64_t{number} << 3 | kBytes);
  append_varint(message, size);
}

void append_delimited(std::string& stream, std::string_view message) {
  append_varint(stream, message.size());
  stream += message;
}

}  // namespace penstock::core::protobuf
