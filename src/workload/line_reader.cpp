#include "workload/line_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace penstock::workload {
namespace {

constexpr std::size_t kBufferBytesFirst = std::size_t{256} << 10;
constexpr std::size_t kBufferBytesMax = kLineBytesMax + kBufferBytesFirst;
constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

}  // namespace

LineReader::LineReader(std::string name, std::unique_ptr<ByteSource> source)
    : name_{std::move(name)}, source_{std::move(source)}, buffer_(kBufferBytesFirst + kPaddingBytes) {}

std::string LineReader::place() const { return fmt::format("{}:{}", name_, line_); }

core::Result<std::optional<std::string_view>> LineReader::next() {
  while (true) {
    auto line = next_raw();
    if (!line || !*line) return line;
    std::string_view& text = **line;
    if (line_ == 1 && text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
    if (text.ends_with('\r')) text.remove_suffix(1);
    if (text.find_first_not_of(" \t") != std::string_view::npos) return line;
  }
}

core::Result<std::optional<std::string_view>> LineReader::next_raw() {
  std::size_t searched = 0;  // Number of available bytes without a line end.
  while (true) {
    const char* from = buffer_.data() + begin_;
    const std::size_t ready = end_ - begin_;
    const void* found = ready == searched ? nullptr : std::memchr(from + searched, '\n', ready - searched);
    const std::size_t length = found ? static_cast<std::size_t>(static_cast<const char*>(found) - from) : ready;
    if (found || ended_) {
      if (!found && ready == 0) return std::nullopt;
      ++line_;
    }
    if (length > kLineBytesMax) {
      if (!found && !ended_) ++line_;
      return core::invalid_input(place(), fmt::format("the line is longer than {} MiB", kLineBytesMax >> 20));
    }
    if (found || ended_) {
      begin_ += std::min(length + 1, ready);
      return std::string_view{from, length};
    }
    searched = ready;
    if (auto filled = fill(); !filled) return tl::make_unexpected(filled.error());
  }
}

core::Result<void> LineReader::fill() {
  std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
  end_ -= begin_;
  begin_ = 0;
  if (end_ + kPaddingBytes == buffer_.size()) buffer_.resize(std::min(2 * end_, kBufferBytesMax) + kPaddingBytes);
  const std::span room{reinterpret_cast<std::uint8_t*>(buffer_.data()) + end_, buffer_.size() - kPaddingBytes - end_};
  const auto count = source_->read(room);
  if (!count) return tl::make_unexpected(count.error());
  end_ += *count;
  ended_ = *count == 0;
  return {};
}

}  // namespace penstock::workload
