#include "connect/kubernetes/watch_stream.h"

#include <array>
#include <nlohmann/json.hpp>
#include <utility>

namespace penstock::connect {

bool WatchStream::take(std::string_view bytes, const OnEvent& event) {
  for (;;) {
    const std::size_t end = bytes.find('\n');
    if (line_.size() + std::min(end, bytes.size()) > kLineBytesMax) {
      problem_ = "an event of the watch is longer than 8 MiB";
      return false;
    }
    if (end == std::string_view::npos) {
      line_.append(bytes);
      return true;
    }
    const std::string_view piece = bytes.substr(0, end);
    bytes.remove_prefix(end + 1);
    if (line_.empty()) {
      if (!take_line(piece, event)) return false;
    } else {
      const std::string line = std::exchange(line_, {}).append(piece);
      if (!take_line(line, event)) return false;
    }
  }
}

bool WatchStream::take_line(std::string_view line, const OnEvent& event) {
  constexpr std::array<std::pair<std::string_view, WatchEventType>, 5> kTypes{{
      {"ADDED", WatchEventType::kAdded},
      {"MODIFIED", WatchEventType::kModified},
      {"DELETED", WatchEventType::kDeleted},
      {"BOOKMARK", WatchEventType::kBookmark},
      {"ERROR", WatchEventType::kError},
  }};
  if (line.find_first_not_of(" \t\r") == std::string_view::npos) return true;
  const auto read = nlohmann::json::parse(line, nullptr, false);
  const auto type = read.is_object() ? read.find("type") : read.end();
  const auto object = read.is_object() ? read.find("object") : read.end();
  if (!read.is_object() || type == read.end() || !type->is_string() || object == read.end() || !object->is_object()) {
    problem_ = "a line of the watch is not an event";
    return false;
  }
  for (const auto& [name, known] : kTypes)
    if (type->get_ref<const std::string&>() == name) return event(known, *object);
  problem_ = "an event of the watch has an unknown type";
  return false;
}

}  // namespace penstock::connect
