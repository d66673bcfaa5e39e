#include "logging/throttle.h"

namespace penstock::logging {

std::optional<std::uint64_t> Throttle::pass(std::string_view kind, std::string_view name, core::Instant now) {
  auto found = entries_.find(std::pair{kind, name});
  if (found == entries_.end()) {
    const bool shared = entries_.size() >= kinds_max_;
    found = entries_.try_emplace(shared ? Key{} : Key{kind, name}, Entry{now, 0}).first;
  }
  Entry& entry = found->second;
  if (now < entry.next) {
    ++entry.suppressed;
    return std::nullopt;
  }
  entry.next = now + interval_;
  return std::exchange(entry.suppressed, 0);
}

}  // namespace penstock::logging
