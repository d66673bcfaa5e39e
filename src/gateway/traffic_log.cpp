#include "gateway/traffic_log.h"

#include <algorithm>
#include <utility>

namespace penstock::gateway {

void TrafficLog::add(TrafficEvent event) {
  event.sequence = ++last_;
  if (event.keys.size() > TrafficEvent::kKeysMax) event.keys.resize(TrafficEvent::kKeysMax);
  events_.push_back(std::move(event));
  if (events_.size() > kEventsMax) events_.pop_front();
}

TrafficLog::Page TrafficLog::after(std::uint64_t sequence, std::size_t events_max) const {
  Page page;
  // A number from before a restart means nothing here: begin anew.
  if (sequence > last_) sequence = 0;
  const std::uint64_t first_kept = last_ - events_.size() + 1;
  const std::uint64_t first = std::max(sequence + 1, first_kept);
  page.lost = first - (sequence + 1);
  const auto begin = events_.begin() + static_cast<std::ptrdiff_t>(first - first_kept);
  const auto count = std::min<std::size_t>(events_max, static_cast<std::size_t>(events_.end() - begin));
  page.events.assign(begin, begin + static_cast<std::ptrdiff_t>(count));
  page.next = first + count - 1;
  return page;
}

}  // namespace penstock::gateway
