// Test support for trace readers: traces from text, compressed with common tools.
#pragma once

#include <lzma.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "workload/reader.h"

namespace penstock::workload::testing {

using Bytes = std::vector<std::uint8_t>;

inline std::span<const std::uint8_t> bytes_of(std::string_view text) {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

[[nodiscard]] inline core::Result<Workload> read_text(std::string_view text, const ReadOptions& options = {},
                                                      ReadReport* report = nullptr) {
  return read_workload_bytes("t.csv", bytes_of(text), options, report);
}

// Returns "" if the text is valid.
inline std::string message_of(std::string_view text, const ReadOptions& options = {}) {
  const auto workload = read_text(text, options);
  return workload ? std::string{} : workload.error().message();
}
// Returns location and problem without the hint.
inline std::string fault_of(std::string_view text, const ReadOptions& options = {}) {
  const auto workload = read_text(text, options);
  return workload ? std::string{} : workload.error().where + ": " + workload.error().what;
}

inline Bytes gzip(std::string_view text) {
  z_stream stream{};
  if (deflateInit2(&stream, 6, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY) != Z_OK)
    throw std::runtime_error{"zlib"};
  Bytes packed(deflateBound(&stream, text.size()) + 32);
  stream.next_in = const_cast<Bytef*>(bytes_of(text).data());
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = packed.data();
  stream.avail_out = static_cast<uInt>(packed.size());
  if (deflate(&stream, Z_FINISH) != Z_STREAM_END) throw std::runtime_error{"zlib"};
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

inline Bytes xz(std::string_view text) {
  lzma_options_lzma lzma{};
  lzma_lzma_preset(&lzma, 1);
  lzma_filter filters[] = {{LZMA_FILTER_LZMA2, &lzma}, {LZMA_VLI_UNKNOWN, nullptr}};
  Bytes packed(lzma_stream_buffer_bound(text.size()));
  std::size_t size = 0;
  if (lzma_stream_buffer_encode(filters, LZMA_CHECK_CRC64, nullptr, bytes_of(text).data(), text.size(), packed.data(),
                                &size, packed.size()) != LZMA_OK)
    throw std::runtime_error{"lzma"};
  packed.resize(size);
  return packed;
}

// Compresses the text, but the file claims a dictionary of (2 | size & 1) << (size / 2 + 11) bytes, which would take
// gigabytes to create. The first block header follows the stream header of 12 bytes: size, flags, lengths, the filter
// LZMA2 with its property, padding, checksum (The .xz File Format, 3.1).
inline Bytes xz_claiming(std::string_view text, std::uint8_t size) {
  Bytes packed = xz(text);
  const std::size_t checksum_at = 12 + packed[12] * 4;
  static constexpr std::uint8_t kLzma2[] = {0x21, 0x01};
  *(std::search(packed.begin() + 14, packed.end(), std::begin(kLzma2), std::end(kLzma2)) + 2) = size;
  const std::uint32_t checksum = lzma_crc32(packed.data() + 12, checksum_at - 12, 0);
  for (std::size_t i = 0; i < 4; ++i) packed[checksum_at + i] = static_cast<std::uint8_t>(checksum >> (8 * i));
  return packed;
}

// Compresses as a stream, so that the frame contains a window and no length.
inline Bytes zstd(std::string_view text) {
  ZSTD_CCtx* context = ZSTD_createCCtx();
  ZSTD_CCtx_setParameter(context, ZSTD_c_compressionLevel, 1);
  ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 1);
  Bytes packed(ZSTD_compressBound(text.size()) + 64);
  ZSTD_inBuffer in{text.data(), text.size(), 0};
  ZSTD_outBuffer out{packed.data(), packed.size(), 0};
  ZSTD_inBuffer nothing{nullptr, 0, 0};
  const std::size_t first = ZSTD_compressStream2(context, &out, &in, ZSTD_e_flush);
  const std::size_t last = ZSTD_compressStream2(context, &out, &nothing, ZSTD_e_end);
  ZSTD_freeCCtx(context);
  if (ZSTD_isError(first) || last != 0) throw std::runtime_error{"zstd"};
  packed.resize(out.pos);
  return packed;
}

// Compresses the text, but the frame claims a window of 2^window_log bytes (RFC 8878, 3.1.1.1.2).
inline Bytes zstd_claiming(std::string_view text, int window_log) {
  Bytes packed = zstd(text);
  packed[5] = static_cast<std::uint8_t>((window_log - 10) << 3);
  return packed;
}

}  // namespace penstock::workload::testing
