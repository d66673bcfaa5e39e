#include "telemetry/msgpack.h"

#include <bit>

namespace penstock::telemetry {
namespace {

constexpr std::uint8_t kNil = 0xc0, kNeverUsed = 0xc1, kFalse = 0xc2, kTrue = 0xc3, kBin8 = 0xc4, kBin32 = 0xc6,
                       kExt8 = 0xc7, kExt32 = 0xc9, kFloat32 = 0xca, kFloat64 = 0xcb, kUint8 = 0xcc, kUint64 = 0xcf,
                       kInt8 = 0xd0, kInt64 = 0xd3, kFixExt1 = 0xd4, kFixExt16 = 0xd8, kStr8 = 0xd9, kStr16 = 0xda,
                       kStr32 = 0xdb, kArray16 = 0xdc, kMap16 = 0xde;

constexpr bool between(std::uint8_t tag, std::uint8_t first, std::uint8_t last) { return tag >= first && tag <= last; }
constexpr std::size_t width_after(std::uint8_t tag, std::uint8_t first) { return std::size_t{1} << (tag - first); }

std::uint64_t sign_extended(std::uint64_t value, std::size_t width) {
  const int spare = static_cast<int>(64 - 8 * width);
  return static_cast<std::uint64_t>(static_cast<std::int64_t>(value << spare) >> spare);
}

}  // namespace

std::optional<std::uint64_t> MsgpackReader::big_endian(std::size_t from, std::size_t length) const {
  if (from > bytes_.size() || bytes_.size() - from < length) return std::nullopt;
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < length; ++i) value = value << 8 | static_cast<std::uint8_t>(bytes_[from + i]);
  return value;
}

std::optional<std::string_view> MsgpackReader::take(std::size_t header, std::size_t length) {
  const std::size_t left = bytes_.size() - at_;
  if (left < header || left - header < length) return std::nullopt;
  const std::string_view value = bytes_.substr(at_ + header, length);
  at_ += header + length;
  return value;
}

std::optional<std::string_view> MsgpackReader::sized(std::size_t width, std::size_t extra) {
  const auto length = big_endian(at_ + 1, width);
  return length ? take(1 + width + extra, *length) : std::nullopt;
}

std::optional<std::uint32_t> MsgpackReader::counted(std::size_t width, std::size_t unit) {
  const auto count = big_endian(at_ + 1, width);
  if (!count || *count * unit > bytes_.size() - at_ - 1 - width) return std::nullopt;
  at_ += 1 + width;
  return static_cast<std::uint32_t>(*count);
}

std::optional<std::uint32_t> MsgpackReader::container(std::uint8_t fixed, std::uint8_t tag16, std::size_t unit) {
  if (at_end()) return std::nullopt;
  const auto tag = static_cast<std::uint8_t>(bytes_[at_]);
  if (tag == tag16) return counted(2, unit);
  if (tag == tag16 + 1) return counted(4, unit);
  if ((tag & 0xf0) != fixed) return std::nullopt;
  const std::uint32_t count = tag & 0x0f;
  if (count * unit > bytes_.size() - at_ - 1) return std::nullopt;
  ++at_;
  return count;
}

std::optional<std::uint32_t> MsgpackReader::read_array() { return container(0x90, kArray16, 1); }
std::optional<std::uint32_t> MsgpackReader::read_map() { return container(0x80, kMap16, 2); }

std::optional<std::string_view> MsgpackReader::read_text() {
  if (at_end()) return std::nullopt;
  const auto tag = static_cast<std::uint8_t>(bytes_[at_]);
  if ((tag & 0xe0) == 0xa0) return take(1, tag & 0x1f);
  return between(tag, kStr8, kStr32) ? sized(width_after(tag, kStr8)) : std::nullopt;
}

std::optional<std::string_view> MsgpackReader::read_binary() {
  if (at_end()) return std::nullopt;
  const auto tag = static_cast<std::uint8_t>(bytes_[at_]);
  return between(tag, kBin8, kBin32) ? sized(width_after(tag, kBin8)) : std::nullopt;
}

std::optional<MsgpackReader::Integer> MsgpackReader::read_integer() {
  if (at_end()) return std::nullopt;
  const auto tag = static_cast<std::uint8_t>(bytes_[at_]);
  if (tag < 0x80 || tag >= 0xe0) {
    ++at_;
    return tag < 0x80 ? Integer{tag, false} : Integer{sign_extended(tag, 1), true};
  }
  if (!between(tag, kUint8, kInt64)) return std::nullopt;
  const bool is_signed = tag >= kInt8;
  const std::size_t width = width_after(tag, is_signed ? kInt8 : kUint8);
  auto value = big_endian(at_ + 1, width);
  if (!value) return std::nullopt;
  if (is_signed) value = sign_extended(*value, width);
  at_ += 1 + width;
  return Integer{*value, is_signed && static_cast<std::int64_t>(*value) < 0};
}

std::optional<std::uint64_t> MsgpackReader::read_unsigned() {
  const std::size_t before = at_;
  const auto value = read_integer();
  if (value && !value->negative) return value->bits;
  at_ = before;
  return std::nullopt;
}

std::optional<double> MsgpackReader::read_number() {
  if (at_end()) return std::nullopt;
  const auto tag = static_cast<std::uint8_t>(bytes_[at_]);
  if (tag == kFloat32 || tag == kFloat64) {
    const std::size_t width = tag == kFloat32 ? 4 : 8;
    const auto bits = big_endian(at_ + 1, width);
    if (!bits) return std::nullopt;
    at_ += 1 + width;
    return tag == kFloat32 ? static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(*bits)))
                           : std::bit_cast<double>(*bits);
  }
  const auto value = read_integer();
  if (!value) return std::nullopt;
  return value->negative ? static_cast<double>(static_cast<std::int64_t>(value->bits))
                         : static_cast<double>(value->bits);
}

bool MsgpackReader::read_nil() {
  if (at_end() || static_cast<std::uint8_t>(bytes_[at_]) != kNil) return false;
  ++at_;
  return true;
}

std::optional<std::uint64_t> MsgpackReader::skip_one() {
  if (at_end()) return std::nullopt;
  const auto nothing = [](bool taken) { return taken ? std::optional<std::uint64_t>{0} : std::nullopt; };
  const auto tag = static_cast<std::uint8_t>(bytes_[at_]);
  if (tag < 0x80 || tag >= 0xe0 || tag == kNil || tag == kFalse || tag == kTrue) {
    ++at_;
    return 0;
  }
  if (const auto pairs = read_map()) return std::uint64_t{*pairs} * 2;
  if (const auto elements = read_array()) return *elements;
  if (read_text() || read_binary() || read_number()) return 0;
  if (between(tag, kExt8, kExt32)) return nothing(sized(width_after(tag, kExt8), 1).has_value());
  if (between(tag, kFixExt1, kFixExt16)) return nothing(take(2, width_after(tag, kFixExt1)).has_value());
  static_assert(kNeverUsed == 0xc1, "the one tag without a meaning falls through to here");
  return std::nullopt;
}

bool MsgpackReader::skip() {
  const std::size_t before = at_;
  // Each container announced fewer values than there are bytes, so the sum cannot overflow.
  for (std::uint64_t left = 1; left > 0; --left) {
    const auto held = skip_one();
    if (!held) {
      at_ = before;
      return false;
    }
    left += *held;
  }
  return true;
}

void MsgpackWriter::tagged(std::uint8_t tag, std::uint64_t value, std::size_t width) {
  out_.push_back(static_cast<char>(tag));
  for (std::size_t i = width; i-- > 0;) out_.push_back(static_cast<char>(value >> (8 * i) & 0xff));
}

void MsgpackWriter::array(std::uint32_t elements) {
  if (elements < 16) return tagged(static_cast<std::uint8_t>(0x90 | elements), 0, 0);
  elements < 0x10000 ? tagged(kArray16, elements, 2) : tagged(kArray16 + 1, elements, 4);
}

void MsgpackWriter::map(std::uint32_t pairs) {
  if (pairs < 16) return tagged(static_cast<std::uint8_t>(0x80 | pairs), 0, 0);
  pairs < 0x10000 ? tagged(kMap16, pairs, 2) : tagged(kMap16 + 1, pairs, 4);
}

void MsgpackWriter::text(std::string_view value) {
  const std::size_t size = value.size();
  if (size < 32)
    tagged(static_cast<std::uint8_t>(0xa0 | size), 0, 0);
  else if (size < 0x100)
    tagged(kStr8, size, 1);
  else
    size < 0x10000 ? tagged(kStr16, size, 2) : tagged(kStr32, size, 4);
  out_.append(value);
}

void MsgpackWriter::unsigned_integer(std::uint64_t value) {
  if (value < 0x80)
    tagged(static_cast<std::uint8_t>(value), 0, 0);
  else if (value < 0x100)
    tagged(kUint8, value, 1);
  else if (value < 0x10000)
    tagged(kUint8 + 1, value, 2);
  else
    value <= UINT32_MAX ? tagged(kUint8 + 2, value, 4) : tagged(kUint64, value, 8);
}

void MsgpackWriter::integer(std::int64_t value) {
  const auto bits = static_cast<std::uint64_t>(value);
  if (value >= 0)
    unsigned_integer(bits);
  else if (value >= -32)
    tagged(static_cast<std::uint8_t>(bits), 0, 0);
  else if (value >= INT8_MIN)
    tagged(kInt8, bits, 1);
  else if (value >= INT16_MIN)
    tagged(kInt8 + 1, bits, 2);
  else
    value >= INT32_MIN ? tagged(kInt8 + 2, bits, 4) : tagged(kInt64, bits, 8);
}

void MsgpackWriter::number(double value) { tagged(kFloat64, std::bit_cast<std::uint64_t>(value), 8); }
void MsgpackWriter::nil() { tagged(kNil, 0, 0); }

}  // namespace penstock::telemetry
