#include "workload/decompress.h"

#include <fmt/format.h>
#include <lzma.h>
#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

#include <algorithm>
#include <initializer_list>
#include <utility>
#include <vector>

namespace penstock::workload {
namespace {

using core::invalid_input;
using Buffer = std::span<std::uint8_t>;

constexpr std::size_t kPieceBytes = std::size_t{64} << 10;
constexpr std::string_view kHint = "copy or download the file again";

// The compressed input of every decompressor: a window on bytes that were read and not consumed yet.
class Packed {
 public:
  Packed(std::string name, std::unique_ptr<ByteSource> source) : name_{std::move(name)}, source_{std::move(source)} {}

  // Reads until at least `count` bytes are available or the source has ended; `count` is at most one piece.
  [[nodiscard]] core::Result<void> fill(std::size_t count = 1) {
    if (rest_.size() >= count || ended_) return {};
    std::copy(rest_.begin(), rest_.end(), piece_.begin());
    std::size_t filled = rest_.size();
    while (filled < count && !ended_) {
      const auto more = source_->read(Buffer{piece_}.subspan(filled));
      if (!more) return tl::make_unexpected(more.error());
      ended_ = *more == 0;
      filled += *more;
    }
    rest_ = Buffer{piece_}.first(filled);
    return {};
  }
  [[nodiscard]] Buffer rest() const { return rest_; }
  void take(std::size_t count) { rest_ = rest_.subspan(count); }
  [[nodiscard]] bool exhausted() const { return ended_ && rest_.empty(); }

  [[nodiscard]] tl::unexpected<core::Error> ends_early(std::string_view kind) const {
    return invalid_input(name_, fmt::format("the {} data ends early", kind), std::string{kHint});
  }
  [[nodiscard]] tl::unexpected<core::Error> damaged(std::string_view kind) const {
    return invalid_input(name_, fmt::format("the {} data is damaged", kind), std::string{kHint});
  }
  [[nodiscard]] tl::unexpected<core::Error> too_much_memory(std::string_view kind, std::size_t limit_bytes) const {
    return invalid_input(name_, fmt::format("the {} data needs more than {} MiB to unpack", kind, limit_bytes >> 20),
                         "pack it with a smaller window");
  }

 private:
  std::string name_;
  std::unique_ptr<ByteSource> source_;
  std::vector<std::uint8_t> piece_ = std::vector<std::uint8_t>(kPieceBytes);
  Buffer rest_;
  bool ended_ = false;
};

class Plain final : public ByteSource {
 public:
  explicit Plain(Packed packed) : packed_{std::move(packed)} {}

  core::Result<std::size_t> read(Buffer buffer) override {
    if (const auto filled = packed_.fill(); !filled) return tl::make_unexpected(filled.error());
    const std::size_t count = std::min(buffer.size(), packed_.rest().size());
    std::copy_n(packed_.rest().begin(), count, buffer.begin());
    packed_.take(count);
    return count;
  }

 private:
  Packed packed_;
};

class Gzip final : public ByteSource {
 public:
  explicit Gzip(Packed packed) : packed_{std::move(packed)} {}
  ~Gzip() override { inflateEnd(&stream_); }

  [[nodiscard]] bool start() { return inflateInit2(&stream_, kGzipOnly) == Z_OK; }

  core::Result<std::size_t> read(Buffer buffer) override {
    stream_.next_out = buffer.data();
    stream_.avail_out = static_cast<uInt>(std::min<std::size_t>(buffer.size(), UINT32_MAX));
    const std::size_t room = stream_.avail_out;
    while (stream_.avail_out == room) {
      if (const auto filled = packed_.fill(); !filled) return tl::make_unexpected(filled.error());
      if (packed_.exhausted()) {
        if (!between_members_) return packed_.ends_early("gzip");
        break;
      }
      if (std::exchange(between_members_, false) && inflateReset(&stream_) != Z_OK) return packed_.damaged("gzip");
      stream_.next_in = packed_.rest().data();
      stream_.avail_in = static_cast<uInt>(packed_.rest().size());
      const int status = inflate(&stream_, Z_NO_FLUSH);
      packed_.take(packed_.rest().size() - stream_.avail_in);
      if (status == Z_STREAM_END)
        between_members_ = true;
      else if (status != Z_OK && status != Z_BUF_ERROR)
        return packed_.damaged("gzip");
    }
    return room - stream_.avail_out;
  }

 private:
  static constexpr int kGzipOnly = 16 + MAX_WBITS;

  Packed packed_;
  z_stream stream_{};
  bool between_members_ = false;
};

class Xz final : public ByteSource {
 public:
  explicit Xz(Packed packed) : packed_{std::move(packed)} {}
  ~Xz() override { lzma_end(&stream_); }

  [[nodiscard]] bool start() { return lzma_stream_decoder(&stream_, kXzMemoryMax, LZMA_CONCATENATED) == LZMA_OK; }

  core::Result<std::size_t> read(Buffer buffer) override {
    stream_.next_out = buffer.data();
    stream_.avail_out = buffer.size();
    while (stream_.avail_out == buffer.size() && !done_) {
      if (const auto filled = packed_.fill(); !filled) return tl::make_unexpected(filled.error());
      stream_.next_in = packed_.rest().data();
      stream_.avail_in = packed_.rest().size();
      const lzma_ret status = lzma_code(&stream_, packed_.exhausted() ? LZMA_FINISH : LZMA_RUN);
      packed_.take(packed_.rest().size() - stream_.avail_in);
      if (status == LZMA_MEMLIMIT_ERROR || status == LZMA_MEM_ERROR) return packed_.too_much_memory("xz", kXzMemoryMax);
      if (status == LZMA_BUF_ERROR) return packed_.ends_early("xz");
      if (status != LZMA_OK && status != LZMA_STREAM_END) return packed_.damaged("xz");
      done_ = status == LZMA_STREAM_END;
    }
    return buffer.size() - stream_.avail_out;
  }

 private:
  Packed packed_;
  lzma_stream stream_ = LZMA_STREAM_INIT;
  bool done_ = false;
};

class Zstd final : public ByteSource {
 public:
  explicit Zstd(Packed packed) : packed_{std::move(packed)}, stream_{ZSTD_createDStream()} {}
  ~Zstd() override { ZSTD_freeDStream(stream_); }

  [[nodiscard]] bool start() {
    return stream_ != nullptr && !ZSTD_isError(ZSTD_DCtx_setParameter(stream_, ZSTD_d_windowLogMax, kZstdWindowLogMax));
  }

  core::Result<std::size_t> read(Buffer buffer) override {
    ZSTD_outBuffer out{buffer.data(), buffer.size(), 0};
    while (out.pos == 0) {
      if (const auto filled = packed_.fill(); !filled) return tl::make_unexpected(filled.error());
      // Without further input, the decoder may hold decompressed bytes only within a frame.
      if (packed_.exhausted() && between_frames_) break;
      ZSTD_inBuffer in{packed_.rest().data(), packed_.rest().size(), 0};
      const std::size_t status = ZSTD_decompressStream(stream_, &out, &in);
      packed_.take(in.pos);
      if (ZSTD_isError(status)) {
        if (ZSTD_getErrorCode(status) == ZSTD_error_frameParameter_windowTooLarge)
          return packed_.too_much_memory("zstd", std::size_t{1} << kZstdWindowLogMax);
        return packed_.damaged("zstd");
      }
      between_frames_ = status == 0;
      if (packed_.exhausted() && out.pos == 0 && !between_frames_) return packed_.ends_early("zstd");
    }
    return out.pos;
  }

 private:
  Packed packed_;
  ZSTD_DStream* stream_;
  bool between_frames_ = false;
};

template <class Unpacker>
core::Result<std::unique_ptr<ByteSource>> started(Packed packed, const std::string& name, std::string_view kind) {
  auto unpacker = std::make_unique<Unpacker>(std::move(packed));
  if (!unpacker->start()) return core::environment_error(name, fmt::format("the {} unpacker cannot start", kind));
  return unpacker;
}

bool begins_with(std::span<const std::uint8_t> bytes, std::initializer_list<std::uint8_t> magic) {
  return bytes.size() >= magic.size() && std::equal(magic.begin(), magic.end(), bytes.begin());
}

// pzstd starts with a skippable frame, whose first byte is 0x50 to 0x5f (RFC 8878, 3.1.2).
bool is_zstd(std::span<const std::uint8_t> bytes) {
  if (begins_with(bytes, {0x28, 0xb5, 0x2f, 0xfd})) return true;
  return !bytes.empty() && (bytes[0] & 0xf0) == 0x50 && begins_with(bytes.subspan(1), {0x2a, 0x4d, 0x18});
}

// Text of ASCII characters in two bytes each; a byte order mark is not needed.
bool is_utf16(std::span<const std::uint8_t> bytes) {
  if (begins_with(bytes, {0xff, 0xfe}) || begins_with(bytes, {0xfe, 0xff})) return true;
  if (bytes.size() < 4) return false;
  const bool first = bytes[0] == 0 && bytes[2] == 0, second = bytes[1] == 0 && bytes[3] == 0;
  return first != second;
}

core::Result<void> check_readable(const std::string& name, std::span<const std::uint8_t> head) {
  if (begins_with(head, {'B', 'Z', 'h'})) return invalid_input(name, "is compressed with bzip2", "unpack it: bzip2 -d");
  if (begins_with(head, {'P', 'K', 3, 4}))
    return invalid_input(name, "is a ZIP archive or a workbook", "unpack it, or export the table as CSV");
  if (begins_with(head, {'P', 'A', 'R', '1'})) return invalid_input(name, "is a Parquet file", "export it as CSV");
  if (is_utf16(head)) return invalid_input(name, "is UTF-16", "convert it to UTF-8: iconv -f UTF-16 -t UTF-8");
  return {};
}

}  // namespace

core::Result<std::unique_ptr<ByteSource>> decompress(std::string name, std::unique_ptr<ByteSource> source) {
  static constexpr std::size_t kMagicBytes = 6;
  Packed packed{name, std::move(source)};
  if (const auto filled = packed.fill(kMagicBytes); !filled) return tl::make_unexpected(filled.error());
  const auto head = packed.rest();
  if (begins_with(head, {0x1f, 0x8b})) return started<Gzip>(std::move(packed), name, "gzip");
  if (begins_with(head, {0xfd, '7', 'z', 'X', 'Z', 0x00})) return started<Xz>(std::move(packed), name, "xz");
  if (is_zstd(head)) return started<Zstd>(std::move(packed), name, "zstd");
  if (auto good = check_readable(name, head); !good) return tl::make_unexpected(good.error());
  return std::make_unique<Plain>(std::move(packed));
}

}  // namespace penstock::workload
