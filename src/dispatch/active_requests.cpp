#include "dispatch/active_requests.h"

#include <utility>

#include "core/result.h"

namespace penstock::dispatch {

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
  ActiveRequest& request = *places_[place];
  request.ticket = (++serial_ << kPlaceBits) | place;
  if (!spare_keys_.empty()) {
    request.keys = std::move(spare_keys_.back());
    spare_keys_.pop_back();
  }
  ++size_;
  return request;
}

ActiveRequest* ActiveRequests::find(Ticket ticket) {
  const auto place = static_cast<std::size_t>(ticket & ((1U << kPlaceBits) - 1));
  if (ticket == 0 || place >= places_.size() || places_[place]->ticket != ticket) return nullptr;
  return places_[place].get();
}

void ActiveRequests::remove(ActiveRequest& request) {
  const auto place = static_cast<std::uint32_t>(request.ticket & ((1U << kPlaceBits) - 1));
  release_keys(request);
  request = ActiveRequest{};
  free_.push_back(place);
  --size_;
}

void ActiveRequests::release_keys(ActiveRequest& request) {
  std::vector<std::uint64_t> keys = std::move(request.keys);
  request.keys = {};
  if (keys.capacity() == 0 || keys.capacity() > kSpareCapacityMax || spare_keys_.size() >= kSpareKeysMax) return;
  keys.clear();
  spare_keys_.push_back(std::move(keys));
}

}  // namespace penstock::dispatch
