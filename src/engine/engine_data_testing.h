// Test support: measured engine data that may be stored beside the repository, and small samples otherwise.
#pragma once

#include <zlib.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/source_root_testing.h"

namespace penstock::engine::testing {

// Returns the path of "profiles/NAME.json" if ../shared/engine-data beside the repository has it.
inline std::optional<std::string> engine_data(std::string_view name) {
  const auto path = core::testing::source_root().parent_path() / "shared" / "engine-data" / name;
  if (!std::filesystem::exists(path)) return std::nullopt;
  return path.string();
}

inline std::span<const std::uint8_t> bytes_of(std::string_view text) {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

template <class T>
std::string raw(T value) {
  std::string bytes(sizeof value, '\0');
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

// Returns a .npy array as NumPy writes it; `shape` is "3," or "2, 2".
inline std::string npy(std::string_view type, std::string_view shape, std::string_view data,
                       bool fortran_order = false) {
  std::string header = "{'descr': '" + std::string{type} + "', 'fortran_order': " + (fortran_order ? "True" : "False") +
                       ", 'shape': (" + std::string{shape} + "), }";
  header.resize((header.size() + 1 + 10 + 63) / 64 * 64 - 10 - 1, ' ');
  header += '\n';
  return "\x93NUMPY" + std::string{'\x01', '\0'} + raw(static_cast<std::uint16_t>(header.size())) + header +
         std::string{data};
}

inline std::string npy_doubles(const std::vector<double>& values) {
  std::string data;
  for (const double value : values) data += raw(value);
  return npy("<f8", std::to_string(values.size()) + ",", data);
}

struct ZipEntry {
  std::string name, bytes;
  bool deflated = false;
};

// Returns an archive with stored or deflated entries.
inline std::string zip(const std::vector<ZipEntry>& entries) {
  std::string file, directory;
  for (const ZipEntry& entry : entries) {
    std::string packed = entry.bytes;
    if (entry.deflated) {
      z_stream stream{};
      deflateInit2(&stream, 9, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
      packed.resize(deflateBound(&stream, entry.bytes.size()));
      stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(entry.bytes.data()));
      stream.avail_in = static_cast<uInt>(entry.bytes.size());
      stream.next_out = reinterpret_cast<Bytef*>(packed.data());
      stream.avail_out = static_cast<uInt>(packed.size());
      deflate(&stream, Z_FINISH);
      packed.resize(stream.total_out);
      deflateEnd(&stream);
    }
    const auto checksum = static_cast<std::uint32_t>(
        crc32(0, reinterpret_cast<const Bytef*>(entry.bytes.data()), static_cast<uInt>(entry.bytes.size())));
    const std::string sizes = raw(checksum) + raw(static_cast<std::uint32_t>(packed.size())) +
                              raw(static_cast<std::uint32_t>(entry.bytes.size())) +
                              raw(static_cast<std::uint16_t>(entry.name.size())) + raw(std::uint16_t{0});
    const std::string common = raw(std::uint16_t{20}) + raw(std::uint16_t{0}) +
                               raw(static_cast<std::uint16_t>(entry.deflated ? 8 : 0)) + raw(std::uint32_t{0}) + sizes;
    directory += raw(std::uint32_t{0x02014b50}) + raw(std::uint16_t{20}) + common + raw(std::uint16_t{0}) +
                 raw(std::uint32_t{0}) + raw(std::uint32_t{0}) + raw(static_cast<std::uint32_t>(file.size())) +
                 entry.name;
    file += raw(std::uint32_t{0x04034b50}) + common + entry.name + packed;
  }
  const auto count = static_cast<std::uint16_t>(entries.size());
  return file + directory + raw(std::uint32_t{0x06054b50}) + raw(std::uint32_t{0}) + raw(count) + raw(count) +
         raw(static_cast<std::uint32_t>(directory.size())) + raw(static_cast<std::uint32_t>(file.size())) +
         raw(std::uint16_t{0});
}

}  // namespace penstock::engine::testing
