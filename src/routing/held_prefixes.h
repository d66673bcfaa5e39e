// What each replica's prefix cache holds: believed of what was sent there, or said by its KV events.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/time.h"
#include "routing/holders.h"
#include "routing/recent_keys.h"

namespace penstock::routing {

// Without events, a prompt that was sent counts as held, up to the capacity, and the prefixes used least recently go
// first, the longest of a prompt before the shorter ones. Engines may name blocks by hashes that are no keys of ours: those
// events are nobody's business. From a slot's first stored key on that some prompt had, only events say what it holds;
// what is sent counts for kPredicted, until its events had time to come, so that the siblings of a burst find each other.
// About 75 bytes for a key of a slot. Not thread-safe.
class HeldPrefixes {
 public:
  static constexpr core::Duration kPredicted = std::chrono::seconds{5};
  // Events are believed beyond the capacity, which may be a guess, up to this many times: removals may get lost.
  static constexpr std::uint32_t kSaidOverCapacity = 4;

  void open(std::uint32_t slot, std::uint32_t capacity_keys);
  void forget(std::uint32_t slot);  // O(keys held)
  void set_capacity(std::uint32_t slot, std::uint32_t keys);

  void sent(std::uint32_t slot, std::span<const std::uint64_t> keys, core::Instant now);
  void stored(std::uint32_t slot, std::uint64_t key);
  void removed(std::uint32_t slot, std::uint64_t key);
  void cleared(std::uint32_t slot);
  void events_lost(std::uint32_t slot);  // of a slot that goes by events, nothing is known any more

  // When the key was last sent there; none: it was not, or is not believed to be held. To the millisecond, within 24 days.
  [[nodiscard]] std::optional<core::Instant> used_at(std::uint32_t slot, std::uint64_t key, core::Instant now) const;
  // A cache turned out not to hold what was used at that time: caches give up what was used least recently first, and one
  // that began anew has nothing, so all that was used no later is forgotten. Not where events say what is held.
  void lacked(std::uint32_t slot, core::Instant used_at);

  // Valid until the next call. O(log keys · distinct sets of holders).
  [[nodiscard]] std::span<const Holders::Overlap> overlaps(std::span<const std::uint64_t> keys, core::Instant now);

  [[nodiscard]] std::uint32_t keys(std::uint32_t slot) const { return slots_[slot].known.size(); }
  [[nodiscard]] std::uint32_t capacity(std::uint32_t slot) const { return slots_[slot].capacity; }
  [[nodiscard]] bool by_events(std::uint32_t slot) const { return slots_[slot].by_events; }

 private:
  struct Slot {
    RecentKeys known;      // believed or, by events, said; noted: when it was used, in milliseconds
    RecentKeys predicted;  // noted: until when, in milliseconds
    std::uint32_t capacity = 0;
    bool by_events = false;
  };

  void drop_known(std::uint32_t slot, std::uint32_t node);
  void drop_all(std::uint32_t slot, RecentKeys& keys);
  void believe(std::uint32_t slot, std::span<const std::uint64_t> keys, core::Instant now);
  void predict(std::uint32_t slot, std::span<const std::uint64_t> keys, core::Instant now);
  void fit(std::uint32_t slot);
  void drop_outdated(core::Instant now);

  std::vector<Slot> slots_;
  Holders holders_;
  core::Instant outdated_at_ = core::kNever;  // when to look for outdated predictions again
};

}  // namespace penstock::routing
