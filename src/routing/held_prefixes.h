// Tracks the prefixes that each replica's cache holds, from the prompts that were sent or from KV events.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/time.h"
#include "routing/holders.h"
#include "routing/recent_keys.h"

namespace penstock::routing {

// Without events, every prompt that was sent counts as cached, up to the capacity. The least recently used prefixes are
// evicted first, and of one prompt the longest prefix first. Engines may name blocks by hashes that differ from our
// keys; such events are ignored. After a slot's first stored event for a key that some prompt had, only events
// determine what the slot holds. Prompts that were sent then count for kPredicted, until their events have had time to
// arrive, so that concurrent requests with the same prefix are routed together. Memory: about 75 bytes per key and
// slot. Not thread-safe.
class HeldPrefixes {
 public:
  static constexpr core::Duration kPredicted = std::chrono::seconds{5};
  // Slots with events may hold this many times their configured capacity, which may be an estimate. The limit bounds
  // memory when removal events are lost.
  static constexpr std::uint32_t kEventsOverCapacity = 4;

  void open(std::uint32_t slot, std::uint32_t capacity_keys);
  void forget(std::uint32_t slot);  // Cost: O(keys held).
  void set_capacity(std::uint32_t slot, std::uint32_t keys);

  // The prompt has `unshared` further keys behind these, which no other prompt has. They take space and are no prefix.
  void sent(std::uint32_t slot, std::span<const std::uint64_t> keys, core::Instant now, std::uint32_t unshared = 0);
  void stored(std::uint32_t slot, std::uint64_t key);
  void removed(std::uint32_t slot, std::uint64_t key);
  void cleared(std::uint32_t slot);
  void events_lost(std::uint32_t slot);  // Clears what is known of a slot that uses events.

  // Returns when the key was last sent to the slot, or nothing if it was not sent or is not held. Resolution: one
  // millisecond; range: 24 days.
  [[nodiscard]] std::optional<core::Instant> used_at(std::uint32_t slot, std::uint64_t key, core::Instant now) const;
  // Returns the last use of the key that the slot evicts first, or nothing if it holds none.
  [[nodiscard]] std::optional<core::Instant> oldest_use(std::uint32_t slot, core::Instant now) const;
  // The cache did not hold a prefix that was used at `used_at`. Caches evict the least recently used prefixes first,
  // and a restarted cache is empty, so every prefix that was used no later is dropped. Slots with events ignore this
  // call.
  void prefix_missing(std::uint32_t slot, core::Instant used_at);

  // The result is valid until the next call. Cost: O(log keys · distinct sets of holders).
  [[nodiscard]] std::span<const Holders::Overlap> overlaps(std::span<const std::uint64_t> keys, core::Instant now);

  [[nodiscard]] std::uint32_t keys(std::uint32_t slot) const { return slots_[slot].known.size(); }
  [[nodiscard]] std::uint32_t capacity(std::uint32_t slot) const { return slots_[slot].capacity; }
  [[nodiscard]] bool by_events(std::uint32_t slot) const { return slots_[slot].by_events; }

 private:
  struct Slot {
    RecentKeys known;  // Keys that the slot holds. The note is the time of last use in milliseconds.
    // Keys that events have not confirmed yet. The note is the expiry time in milliseconds.
    RecentKeys predicted;
    std::uint32_t capacity = 0;
    bool by_events = false;
  };

  void drop_known(std::uint32_t slot, std::uint32_t node);
  void drop_all(std::uint32_t slot, RecentKeys& keys);
  void record_sent(std::uint32_t slot, std::span<const std::uint64_t> keys, core::Instant now, std::uint32_t unshared);
  void predict(std::uint32_t slot, std::span<const std::uint64_t> keys, core::Instant now);
  void fit(std::uint32_t slot);
  void drop_outdated(core::Instant now);

  std::vector<Slot> slots_;
  Holders holders_;
  core::Instant outdated_at_ = core::kNever;  // Next time at which predictions expire.
};

}  // namespace penstock::routing
