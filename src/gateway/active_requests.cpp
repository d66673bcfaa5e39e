#include "gateway/active_requests.h"

#include <utility>

#include "core/result.h"

namespace penstock::gateway {

ActiveRequest& ActiveRequests::add() {
  std::uint32_t place = 0;
  if (free_.empty()) {
    place = static_cast<std::uint32_t>(places_.size());
    PENSTOCK_ASSERT(place < (1U << kPlaceBits), "connections are limited far below this");
    places_.push_back(std::make_unique<ActiveRequest>());
  } else {
    place = free_.back();
    free_.pop_back();
  }
  places_[place]->ticket = (++serial_ << kPlaceBits) | place;
  ++size_;
  return *places_[place];
}

ActiveRequest* ActiveRequests::find(Ticket ticket) {
  const auto place = static_cast<std::size_t>(ticket & ((1U << kPlaceBits) - 1));
  if (ticket == 0 || place >= places_.size() || places_[place]->ticket != ticket) return nullptr;
  return places_[place].get();
}

void ActiveRequests::remove(ActiveRequest& request) {
  const auto place = static_cast<std::uint32_t>(request.ticket & ((1U << kPlaceBits) - 1));
  request = ActiveRequest{};
  free_.push_back(place);
  --size_;
}

}  // namespace penstock::gateway
