// The next thing to happen among many actors, each with at most one date.
#pragma once

#include <cstdint>
#include <vector>

#include "core/time.h"

namespace penstock::simulation {

// A binary heap of actors that knows where each one is, so that a date can be moved in O(log n). Equal dates come in
// the order of the actors' numbers: the same run gives the same order.
class EventHeap {
 public:
  [[nodiscard]] core::Instant next_time() const { return heap_.empty() ? core::kNever : heap_.front().at; }
  [[nodiscard]] std::uint32_t next_actor() const { return heap_.front().actor; }

  // kNever takes the actor out.
  void set(std::uint32_t actor, core::Instant at) {
    if (actor >= position_.size()) position_.resize(actor + 1, kAbsent);
    std::uint32_t place = position_[actor];
    if (at == core::kNever) {
      if (place != kAbsent) remove(place);
      return;
    }
    if (place == kAbsent) {
      place = static_cast<std::uint32_t>(heap_.size());
      heap_.push_back({at, actor});
      position_[actor] = place;
      sift_up(place);
      return;
    }
    heap_[place].at = at;
    sift_up(place);
    sift_down(position_[actor]);
  }

 private:
  static constexpr std::uint32_t kAbsent = UINT32_MAX;
  struct Entry {
    core::Instant at;
    std::uint32_t actor;
    bool operator<(const Entry& other) const { return at != other.at ? at < other.at : actor < other.actor; }
  };

  void put(std::uint32_t place, const Entry& entry) {
    heap_[place] = entry;
    position_[entry.actor] = place;
  }
  void sift_up(std::uint32_t place) {
    const Entry entry = heap_[place];
    while (place > 0 && entry < heap_[(place - 1) / 2]) {
      put(place, heap_[(place - 1) / 2]);
      place = (place - 1) / 2;
    }
    put(place, entry);
  }
  void sift_down(std::uint32_t place) {
    const Entry entry = heap_[place];
    for (;;) {
      std::uint32_t child = 2 * place + 1;
      if (child >= heap_.size()) break;
      if (child + 1 < heap_.size() && heap_[child + 1] < heap_[child]) ++child;
      if (!(heap_[child] < entry)) break;
      put(place, heap_[child]);
      place = child;
    }
    put(place, entry);
  }
  void remove(std::uint32_t place) {
    position_[heap_[place].actor] = kAbsent;
    const Entry last = heap_.back();
    heap_.pop_back();
    if (place == heap_.size()) return;
    put(place, last);
    sift_up(place);
    sift_down(position_[last.actor]);
  }

  std::vector<Entry> heap_;
  std::vector<std::uint32_t> position_;
};

}  // namespace penstock::simulation
