#include "engine/npz.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstring>
#include <optional>

namespace penstock::engine {
namespace {

using Bytes = std::span<const std::uint8_t>;
using core::invalid_input;

static_assert(std::endian::native == std::endian::little, "arrays are copied as they lie");

constexpr std::uint32_t kEndSignature = 0x06054b50, kEntrySignature = 0x02014b50, kLocalSignature = 0x04034b50;
constexpr std::size_t kEndBytes = 22, kEntryBytes = 46, kLocalBytes = 30, kCommentBytesMax = 65535;

template <class T>
T read_at(Bytes bytes, std::size_t at) {  // the caller has checked that it lies within
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

bool has(Bytes bytes, std::size_t at, std::size_t count) { return at <= bytes.size() && count <= bytes.size() - at; }

struct Entry {
  std::string name;
  std::uint16_t method = 0;
  std::uint32_t checksum = 0;
  std::size_t packed_bytes = 0, unpacked_bytes = 0, local_at = 0;
};

std::optional<std::size_t> end_record(Bytes bytes) {
  if (bytes.size() < kEndBytes) return std::nullopt;
  const std::size_t first = bytes.size() - kEndBytes;
  const std::size_t last = first > kCommentBytesMax ? first - kCommentBytesMax : 0;
  for (std::size_t at = first + 1; at-- > last;)
    if (read_at<std::uint32_t>(bytes, at) == kEndSignature) return at;
  return std::nullopt;
}

// Sizes come from the central directory: NumPy's local headers say ZIP64 and hold none.
core::Result<std::vector<Entry>> directory(Bytes bytes, std::string_view where, const NpzLimits& limits) {
  const std::string file{where};
  const auto end = end_record(bytes);
  if (!end) return invalid_input(file, "is not a zip archive, or its end is missing", "an .npz file is one");
  const std::size_t count = read_at<std::uint16_t>(bytes, *end + 10);
  if (count > limits.entries_max)
    return invalid_input(file, fmt::format("holds {} entries, the maximum is {}", count, limits.entries_max));
  std::size_t at = read_at<std::uint32_t>(bytes, *end + 16);
  std::vector<Entry> entries;
  for (std::size_t i = 0; i < count; ++i) {
    if (!has(bytes, at, kEntryBytes) || read_at<std::uint32_t>(bytes, at) != kEntrySignature)
      return invalid_input(file, fmt::format("entry {} of its directory is damaged", i));
    const auto flags = read_at<std::uint16_t>(bytes, at + 8);
    Entry entry;
    entry.method = read_at<std::uint16_t>(bytes, at + 10);
    entry.checksum = read_at<std::uint32_t>(bytes, at + 16);
    const auto packed = read_at<std::uint32_t>(bytes, at + 20), unpacked = read_at<std::uint32_t>(bytes, at + 24);
    const std::size_t name_bytes = read_at<std::uint16_t>(bytes, at + 28);
    const std::size_t rest =
        std::size_t{read_at<std::uint16_t>(bytes, at + 30)} + read_at<std::uint16_t>(bytes, at + 32);
    entry.local_at = read_at<std::uint32_t>(bytes, at + 42);
    if (!has(bytes, at + kEntryBytes, name_bytes + rest))
      return invalid_input(file, fmt::format("entry {} of its directory exceeds the file", i));
    entry.name.assign(reinterpret_cast<const char*>(bytes.data()) + at + kEntryBytes, name_bytes);
    entry.packed_bytes = packed;
    entry.unpacked_bytes = unpacked;
    if (packed == UINT32_MAX || unpacked == UINT32_MAX)
      return invalid_input(file, "has ZIP64 sizes", "write it smaller");
    if (flags & 1U) return invalid_input(file, "is encrypted");
    entries.push_back(std::move(entry));
    at += kEntryBytes + name_bytes + rest;
  }
  return entries;
}

core::Result<std::vector<std::uint8_t>> unpack(Bytes bytes, const Entry& entry, const std::string& where) {
  const std::size_t at = entry.local_at;
  if (!has(bytes, at, kLocalBytes) || read_at<std::uint32_t>(bytes, at) != kLocalSignature)
    return invalid_input(where, "its local header is damaged");
  const std::size_t data_at =
      at + kLocalBytes + read_at<std::uint16_t>(bytes, at + 26) + read_at<std::uint16_t>(bytes, at + 28);
  if (!has(bytes, data_at, entry.packed_bytes)) return invalid_input(where, "its data exceed the file");
  const Bytes packed = bytes.subspan(data_at, entry.packed_bytes);

  std::vector<std::uint8_t> unpacked;
  if (entry.method == 0) {
    unpacked.assign(packed.begin(), packed.end());
  } else if (entry.method == 8) {
    // One byte beyond shows data that are longer than they say.
    unpacked.resize(entry.unpacked_bytes + 1);
    z_stream stream{};
    if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) return core::environment_error(where, "zlib cannot start");
    stream.next_in = const_cast<Bytef*>(packed.data());
    stream.avail_in = static_cast<uInt>(packed.size());
    stream.next_out = unpacked.data();
    stream.avail_out = static_cast<uInt>(unpacked.size());
    const int outcome = inflate(&stream, Z_FINISH);
    unpacked.resize(stream.total_out);
    inflateEnd(&stream);
    if (outcome != Z_STREAM_END) return invalid_input(where, "its data cannot be unpacked");
  } else {
    return invalid_input(where, fmt::format("is packed by method {}", entry.method), "numpy stores or deflates");
  }
  if (unpacked.size() != entry.unpacked_bytes)
    return invalid_input(where,
                         fmt::format("unpacks to {} bytes instead of {}", unpacked.size(), entry.unpacked_bytes));
  if (crc32(0, unpacked.data(), static_cast<uInt>(unpacked.size())) != entry.checksum)
    return invalid_input(where, "its checksum differs", "the file is damaged");
  return unpacked;
}

struct ArrayHeader {
  std::string type;
  bool fortran_order = false;
  std::vector<std::size_t> shape;
};

// What follows 'key': in the header's Python literal, up to the end.
std::optional<std::string_view> value_of(std::string_view header, std::string_view key) {
  const std::string quoted = fmt::format("'{}':", key);
  const auto at = header.find(quoted);
  if (at == std::string_view::npos) return std::nullopt;
  header.remove_prefix(at + quoted.size());
  header.remove_prefix(std::min(header.find_first_not_of(' '), header.size()));
  return header;
}

std::optional<std::vector<std::size_t>> parse_shape(std::string_view text, std::size_t dimensions_max) {
  if (!text.starts_with('(')) return std::nullopt;
  text = text.substr(1, text.find(')') - 1);
  std::vector<std::size_t> shape;
  while (true) {
    text.remove_prefix(std::min(text.find_first_not_of(" ,"), text.size()));
    if (text.empty()) return shape;
    std::size_t length = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), length);
    if (error != std::errc{} || shape.size() == dimensions_max) return std::nullopt;
    shape.push_back(length);
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  }
}

std::optional<ArrayHeader> parse_header(std::string_view text, std::size_t dimensions_max) {
  const auto type = value_of(text, "descr"), order = value_of(text, "fortran_order"), shape = value_of(text, "shape");
  if (!type || !order || !shape || text.find(')') == std::string_view::npos) return std::nullopt;
  ArrayHeader header;
  if (!type->starts_with('\'')) return std::nullopt;  // a record type is a list
  header.type = type->substr(1, type->find('\'', 1) - 1);
  if (!order->starts_with("True") && !order->starts_with("False")) return std::nullopt;
  header.fortran_order = order->starts_with("True");
  auto lengths = parse_shape(*shape, dimensions_max);
  if (!lengths) return std::nullopt;
  header.shape = std::move(*lengths);
  return header;
}

bool is_printable(std::string_view text, std::size_t size_max) {
  return text.size() <= size_max && std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c < 127; });
}

template <class T>
void append(Bytes data, std::size_t count, std::vector<double>& values) {
  for (std::size_t i = 0; i < count; ++i) values.push_back(static_cast<double>(read_at<T>(data, i * sizeof(T))));
}

core::Result<NumberArray> parse_array(Bytes bytes, const std::string& where, const NpzLimits& limits) {
  constexpr std::string_view kMagic = "\x93NUMPY";
  if (bytes.size() < 10 || std::memcmp(bytes.data(), kMagic.data(), kMagic.size()) != 0)
    return invalid_input(where, "is not a .npy array");
  const int version = bytes[6];
  if (version < 1 || version > 3)
    return invalid_input(where, fmt::format("is of .npy format {}", version), "1 to 3 are read");
  const std::size_t length_bytes = version == 1 ? 2 : 4;
  if (!has(bytes, 8, length_bytes)) return invalid_input(where, "ends within its header");
  const std::size_t length = version == 1 ? read_at<std::uint16_t>(bytes, 8) : read_at<std::uint32_t>(bytes, 8);
  if (length > limits.header_bytes_max || !has(bytes, 8 + length_bytes, length))
    return invalid_input(where, fmt::format("its header of {} bytes is too long", length));
  const std::string_view text{reinterpret_cast<const char*>(bytes.data()) + 8 + length_bytes, length};
  const auto header = parse_header(text, limits.dimensions_max);
  if (!header) return invalid_input(where, "its header cannot be parsed", "save an array of plain numbers");
  if (header->fortran_order && header->shape.size() > 1)
    return invalid_input(where, "is in Fortran order", "save it with numpy.ascontiguousarray");

  const Bytes data = bytes.subspan(8 + length_bytes + length);
  const std::string& type = header->type;
  if (type != "<f8" && type != "<i8" && type != "<f4" && type != "<i4")
    return invalid_input(where, fmt::format("holds {} numbers", is_printable(type, 16) ? type : "other"),
                         "little-endian f4, f8, i4 and i8 are read");
  const std::size_t width = type.back() == '8' ? 8 : 4;
  std::size_t count = 1;
  for (const std::size_t dimension : header->shape) {
    if (dimension != 0 && count > limits.array_bytes_max / dimension) return invalid_input(where, "is too large");
    count *= dimension;
  }
  if (data.size() / width != count || data.size() % width != 0)
    return invalid_input(where, fmt::format("holds {} bytes where its shape needs {} numbers", data.size(), count));
  NumberArray array{header->shape, {}};
  array.values.reserve(count);
  if (type == "<f8") append<double>(data, count, array.values);
  if (type == "<f4") append<float>(data, count, array.values);
  if (type == "<i8") append<std::int64_t>(data, count, array.values);
  if (type == "<i4") append<std::int32_t>(data, count, array.values);
  return array;
}

}  // namespace

core::Result<std::map<std::string, NumberArray>> read_npz(Bytes bytes, std::string_view where,
                                                          const NpzLimits& limits) {
  const auto entries = directory(bytes, where, limits);
  if (!entries) return tl::make_unexpected(entries.error());
  std::map<std::string, NumberArray> arrays;
  std::size_t total = 0;
  for (const Entry& entry : *entries) {
    if (!entry.name.ends_with(".npy")) continue;
    std::string name = entry.name.substr(0, entry.name.size() - 4);
    if (!is_printable(name, 64))
      return invalid_input(std::string{where}, "has an array whose name is not printable or too long");
    const std::string place = fmt::format("{}: {}", where, name);
    if (entry.unpacked_bytes > limits.array_bytes_max)
      return invalid_input(
          place, fmt::format("has {} bytes, the maximum is {}", entry.unpacked_bytes, limits.array_bytes_max));
    total += entry.unpacked_bytes;
    if (total > limits.total_bytes_max)
      return invalid_input(std::string{where}, fmt::format("holds more than {} bytes", limits.total_bytes_max));
    const auto data = unpack(bytes, entry, place);
    if (!data) return tl::make_unexpected(data.error());
    auto array = parse_array(*data, place, limits);
    if (!array) return tl::make_unexpected(array.error());
    if (!arrays.emplace(std::move(name), std::move(*array)).second) return invalid_input(place, "occurs twice");
  }
  return arrays;
}

}  // namespace penstock::engine
