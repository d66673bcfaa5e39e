// Lets one line of a kind through in an interval, and counts the others.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "core/time.h"

namespace penstock::logging {

// For one thread. Each pair of texts is a kind of its own, up to `kinds_max`; all further ones share one.
class Throttle {
 public:
  explicit Throttle(core::Duration interval, std::size_t kinds_max = 1024)
      : interval_(interval), kinds_max_(kinds_max) {}

  // How many lines of the kind were suppressed since the last one that passed. None: suppress this one, too.
  // O(log kinds).
  [[nodiscard]] std::optional<std::uint64_t> pass(std::string_view kind, std::string_view name, core::Instant now);

 private:
  struct Entry {
    core::Instant next;
    std::uint64_t suppressed = 0;
  };
  using Key = std::pair<std::string, std::string>;
  struct Less {
    using is_transparent = void;
    using View = std::pair<std::string_view, std::string_view>;
    bool operator()(const auto& left, const auto& right) const {
      return View{left.first, left.second} < View{right.first, right.second};
    }
  };

  core::Duration interval_;
  std::size_t kinds_max_;
  std::map<Key, Entry, Less> entries_;
};

}  // namespace penstock::logging
