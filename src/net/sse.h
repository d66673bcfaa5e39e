// Server-sent events (WHATWG HTML, §9.2) as bytes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace penstock::net {

// Incremental reader of an event stream. Only the field `data` is used; several data lines of an event are joined by
// line feeds.
class SseReader {
 public:
  // Calls `event(std::string_view data)` for each event that ends within the bytes. Returns false if an event is longer
  // than kEventBytesMax; the reader is unusable then.
  template <class OnEvent>
  bool take(std::string_view bytes, OnEvent&& event) {
    while (!bytes.empty()) {
      const std::size_t end = bytes.find('\n');
      line_.append(bytes.substr(0, end));
      if (line_.size() + data_.size() > kEventBytesMax) return false;
      if (end == std::string_view::npos) return true;
      bytes.remove_prefix(end + 1);
      if (!line_.empty() && line_.back() == '\r') line_.pop_back();
      if (line_.empty()) {
        if (has_data_) event(std::string_view{data_});
        data_.clear();
        has_data_ = false;
      } else {
        take_line();
      }
      line_.clear();
    }
    return true;
  }

  static constexpr std::size_t kEventBytesMax = 16 * 1024 * 1024;

 private:
  void take_line();

  std::string line_, data_;
  bool has_data_ = false;
};

}  // namespace penstock::net
