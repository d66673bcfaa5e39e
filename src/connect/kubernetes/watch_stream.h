// The body of a watch: one JSON document in each line.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace penstock::connect {

enum class WatchEventType : std::uint8_t { kAdded, kModified, kDeleted, kBookmark, kError };

// Incremental reader. A line that is not complete when the body ends was cut, and is dropped.
class WatchStream {
 public:
  static constexpr std::size_t kLineBytesMax = 8 * 1024 * 1024;

  // Returns false to stop.
  using OnEvent = std::function<bool(WatchEventType, const nlohmann::json& object)>;

  // Calls `event` for each line that ends within the bytes. Returns false if a line is no event, is too long, or the
  // callback has returned false; the reader is unusable then, and `problem()` is empty in the last case.
  [[nodiscard]] bool take(std::string_view bytes, const OnEvent& event);
  [[nodiscard]] const std::string& problem() const { return problem_; }

 private:
  [[nodiscard]] bool take_line(std::string_view line, const OnEvent& event);

  std::string line_, problem_;
};

}  // namespace penstock::connect
