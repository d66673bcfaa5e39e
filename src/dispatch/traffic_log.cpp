#include "dispatch/traffic_log.h"

#include <algorithm>
#include <utility>

namespace penstock::dispatch {

void TrafficLog::add(TrafficEvent event) {
  const std::size_t place = last_ % kEventsMax;
  if (place / kPieceEvents == pieces_.size()) pieces_.push_back(std::make_unique<Piece>());
  event.sequence = ++last_;
  if (event.keys.size() > TrafficEvent::kKeysMax) event.keys.resize(TrafficEvent::kKeysMax);
  (*pieces_[place / kPieceEvents])[place % kPieceEvents] = std::move(event);
}

std::size_t TrafficLog::size() const { return std::min<std::uint64_t>(last_, kEventsMax); }

TrafficLog::Page TrafficLog::after(std::uint64_t sequence, std::size_t events_max) const {
  Page page;
  // A number from before a restart has no meaning here.
  if (sequence > last_) sequence = 0;
  const std::uint64_t first_kept = last_ - size() + 1;
  const std::uint64_t first = std::max(sequence + 1, first_kept);
  page.lost = first - (sequence + 1);
  const std::uint64_t count = std::min<std::uint64_t>(events_max, last_ + 1 - first);
  page.events.reserve(count);
  for (std::uint64_t next = first; next < first + count; ++next) {
    const std::size_t place = (next - 1) % kEventsMax;
    page.events.push_back((*pieces_[place / kPieceEvents])[place % kPieceEvents]);
  }
  page.next = first + count - 1;
  return page;
}

}  // namespace penstock::dispatch
