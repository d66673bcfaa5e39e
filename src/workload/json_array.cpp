#include "workload/json_array.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace penstock::workload {
namespace {

constexpr std::size_t kArrayBufferBytes = std::size_t{64} << 10;
constexpr std::string_view kBom = "\xef\xbb\xbf";

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

class JsonArrayLines final : public ByteSource {
 public:
  JsonArrayLines(std::string name, std::unique_ptr<ByteSource> source)
      : name_{std::move(name)}, source_{std::move(source)}, buffer_(kArrayBufferBytes) {}

  core::Result<std::size_t> read(std::span<std::uint8_t> out) override {
    std::size_t written = 0;
    while (written < out.size()) {
      if (pending_lines_ > 0 && in_element_) {
        out[written++] = '\n';
        --pending_lines_;
        continue;
      }
      if (begin_ == end_) {
        if (written > 0) return written;
        const auto filled = fill();
        if (!filled) return filled;
        if (*filled == 0) return 0;
      }
      if (mode_ == Mode::kPassOn) {
        const std::size_t count = std::min(end_ - begin_, out.size() - written);
        std::copy_n(buffer_.begin() + static_cast<std::ptrdiff_t>(begin_), count, out.begin());
        begin_ += count;
        return count;
      }
      const char c = buffer_[begin_];
      if (!in_element_ && !begins_element(c)) continue;
      if (pending_lines_ > 0) continue;  // They come before the element.
      if (const auto passed = inside(c)) out[written++] = static_cast<std::uint8_t>(*passed);
    }
    return written;
  }

 private:
  enum class Mode : std::uint8_t { kUnknown, kPassOn, kArray, kEnded };

  core::Result<std::size_t> fill() {
    const auto count = source_->read(std::span{reinterpret_cast<std::uint8_t*>(buffer_.data()), buffer_.size()});
    if (!count) return count;
    begin_ = 0;
    end_ = *count;
    if (*count == 0 && mode_ == Mode::kArray)
      return core::invalid_input(name_, "the JSON array ends early", "copy or download the file again");
    if (mode_ == Mode::kUnknown && *count > 0) {
      std::string_view text{buffer_.data(), end_};
      if (text.starts_with(kBom)) text.remove_prefix(kBom.size());
      std::size_t at = 0;
      while (at < text.size() && is_blank(text[at])) ++at;
      mode_ = at < text.size() && text[at] == '[' ? Mode::kArray : Mode::kPassOn;
      if (mode_ == Mode::kArray) {
        for (const char c : text.substr(0, at)) pending_lines_ += c == '\n' ? 1 : 0;
        begin_ = end_ - text.size() + at + 1;
      }
    }
    return count;
  }

  // Consumes what stands between elements. Returns true at the first byte of an element, which is not consumed.
  bool begins_element(char c) {
    if (is_blank(c) || (c == ',' && mode_ == Mode::kArray)) {
      pending_lines_ += c == '\n' ? 1 : 0;
      ++begin_;
      return false;
    }
    if (c == ']' && mode_ == Mode::kArray) {
      mode_ = Mode::kEnded;
      ++begin_;
      return false;
    }
    if (has_element_ && pending_lines_ == 0) pending_lines_ = 1;
    in_element_ = has_element_ = true;
    return true;
  }

  // Consumes a byte of an element and returns what stands for it; nothing for the byte behind the element.
  std::optional<char> inside(char c) {
    if (depth_ == 0 && !in_string_ && (c == ',' || c == ']') && mode_ == Mode::kArray) {
      in_element_ = false;  // The end of a number or a word.
      pending_lines_ = std::exchange(lines_inside_, 0);
      return std::nullopt;
    }
    ++begin_;
    if (c == '\n') {
      ++lines_inside_;
      return ' ';
    }
    if (in_string_) {
      if (!std::exchange(escaped_, false)) {
        escaped_ = c == '\\';
        in_string_ = c != '"';
      }
    } else if (c == '"') {
      in_string_ = true;
    } else if (c == '{' || c == '[') {
      ++depth_;
    } else if ((c == '}' || c == ']') && depth_ > 0 && --depth_ == 0) {
      in_element_ = false;
      pending_lines_ = std::exchange(lines_inside_, 0);
    }
    return c;
  }

  std::string name_;
  std::unique_ptr<ByteSource> source_;
  std::vector<char> buffer_;  // [begin_, end_) was read and not passed on.
  std::size_t begin_ = 0, end_ = 0;
  Mode mode_ = Mode::kUnknown;
  bool in_element_ = false, has_element_ = false, in_string_ = false, escaped_ = false;
  std::size_t depth_ = 0;
  std::size_t pending_lines_ = 0;  // Line ends that come before the next element.
  std::size_t lines_inside_ = 0;
};

}  // namespace

std::unique_ptr<ByteSource> json_array_lines(std::string name, std::unique_ptr<ByteSource> source) {
  return std::make_unique<JsonArrayLines>(std::move(name), std::move(source));
}

}  // namespace penstock::workload
