#include "routing/held_prefixes.h"

#include <algorithm>

namespace penstock::routing {
namespace {

constexpr std::size_t kAhead = 8;  // Number of keys whose memory is prefetched before use.
constexpr std::uint32_t kPredictedMs =
    std::chrono::duration_cast<std::chrono::milliseconds>(HeldPrefixes::kPredicted).count();
constexpr core::Duration kLookEvery = std::chrono::milliseconds{10};
// choose() clears expired predictions itself when they are this late; sent() usually clears them earlier.
constexpr core::Duration kLate = std::chrono::milliseconds{500};

// Milliseconds that wrap after 49 days. Only differences of seconds are computed from them.
std::uint32_t clipped_ms(core::Instant at) {
  return static_cast<std::uint32_t>(
      std::chrono::duration_cast<std::chrono::milliseconds>(at.time_since_epoch()).count());
}

// Returns nothing if there is no such node, or if no prompt with its key was sent.
std::optional<core::Instant> use_of(const RecentKeys& keys, std::uint32_t node, core::Instant now) {
  if (node == RecentKeys::kNone || keys.note(node) == 0) return std::nullopt;
  return now - std::chrono::milliseconds{static_cast<std::int32_t>(clipped_ms(now) - keys.note(node))};
}

}  // namespace

void HeldPrefixes::open(std::uint32_t slot, std::uint32_t capacity_keys) {
  if (slot >= slots_.size()) slots_.resize(slot + 1);
  slots_[slot].capacity = std::max(capacity_keys, 1U);
}

void HeldPrefixes::forget(std::uint32_t slot) {
  drop_all(slot, slots_[slot].predicted);
  drop_all(slot, slots_[slot].known);
  slots_[slot] = Slot{};
}

void HeldPrefixes::set_capacity(std::uint32_t slot, std::uint32_t keys) {
  slots_[slot].capacity = std::max(keys, 1U);
  fit(slot);
}

void HeldPrefixes::sent(std::uint32_t slot, std::span<const std::uint64_t> keys, core::Instant now,
                        std::uint32_t unshared) {
  if (now >= outdated_at_) drop_outdated(now);
  if (slots_[slot].by_events) {
    predict(slot, keys, now);
  } else {
    record_sent(slot, keys, now, unshared);
  }
}

// Keys are visited in reverse order, so that the end of a prompt is older than its start and is evicted first.
void HeldPrefixes::record_sent(std::uint32_t slot, std::span<const std::uint64_t> keys, core::Instant now,
                               std::uint32_t unshared) {
  RecentKeys& known = slots_[slot].known;
  const std::uint32_t now_ms = clipped_ms(now), capacity = slots_[slot].capacity;
  keys = keys.first(std::min<std::size_t>(keys.size(), capacity));
  unshared = std::min(unshared, capacity - static_cast<std::uint32_t>(keys.size()));
  if (unshared > 0) {
    while (known.size() + unshared > capacity) drop_known(slot, known.oldest());
    known.insert_unnamed(unshared, now_ms);
  }
  for (std::size_t i = keys.size(); i-- > 0;) {
    if (i >= 2 * kAhead) known.prefetch(keys[i - 2 * kAhead]);
    if (i >= kAhead) {
      known.prefetch_node(keys[i - kAhead]);
      holders_.prefetch(keys[i - kAhead]);
    }
    if (const std::uint32_t node = known.find(keys[i]); node != RecentKeys::kNone) {
      known.touch(node);
      known.set_note(node, now_ms);
      continue;
    }
    if (known.size() >= capacity) {
      const std::uint32_t oldest = known.oldest();
      if (const std::uint32_t next = known.newer(oldest); next != RecentKeys::kNone) {
        known.prefetch(known.key(next));
        holders_.prefetch(known.key(next));
      }
      drop_known(slot, oldest);
    }
    known.insert(keys[i], now_ms);
    holders_.add(slot, keys[i]);
  }
}

void HeldPrefixes::predict(std::uint32_t slot, std::span<const std::uint64_t> keys, core::Instant now) {
  Slot& of = slots_[slot];
  keys = keys.first(std::min<std::size_t>(keys.size(), of.capacity));
  const std::uint32_t now_ms = clipped_ms(now), until = clipped_ms(now + kPredicted);
  for (std::size_t i = keys.size(); i-- > 0;) {
    if (const std::uint32_t node = of.known.find(keys[i]); node != RecentKeys::kNone) {
      of.known.touch(node);
      of.known.set_note(node, now_ms);
      continue;
    }
    if (const std::uint32_t node = of.predicted.find(keys[i]); node != RecentKeys::kNone) {
      of.predicted.set_note(node, until);
      of.predicted.touch(node);
      continue;
    }
    if (of.predicted.size() >= of.capacity) {
      holders_.drop(slot, of.predicted.key(of.predicted.oldest()));
      of.predicted.erase(of.predicted.oldest());
    }
    of.predicted.insert(keys[i], until);
    holders_.add(slot, keys[i]);
  }
  outdated_at_ = std::min(outdated_at_, now + kPredicted);
}

void HeldPrefixes::drop_outdated(core::Instant now) {
  outdated_at_ = core::kNever;
  const std::uint32_t now_ms = clipped_ms(now);
  for (std::uint32_t slot = 0; slot < slots_.size(); ++slot) {
    RecentKeys& predicted = slots_[slot].predicted;
    while (predicted.size() > 0) {
      const std::uint32_t node = predicted.oldest();
      const auto left_ms = static_cast<std::int32_t>(predicted.note(node) - now_ms);
      if (left_ms > 0) {
        outdated_at_ =
            std::min(outdated_at_, now + std::max<core::Duration>(std::chrono::milliseconds{left_ms}, kLookEvery));
        break;
      }
      holders_.drop(slot, predicted.key(node));
      predicted.erase(node);
    }
  }
}

void HeldPrefixes::stored(std::uint32_t slot, std::uint64_t key) {
  Slot& of = slots_[slot];
  if (!of.by_events) {
    if (!holders_.knows(key)) return;
    drop_all(slot, of.known);
    of.by_events = true;
  }
  if (const std::uint32_t node = of.known.find(key); node != RecentKeys::kNone) return of.known.touch(node);
  std::uint32_t used_ms = 0;  // Zero, because no prompt with this key was sent.
  if (const std::uint32_t node = of.predicted.find(key); node != RecentKeys::kNone) {
    used_ms = of.predicted.note(node) - kPredictedMs;
    of.predicted.erase(node);
  }
  of.known.insert(key, used_ms);
  holders_.add(slot, key);
  fit(slot);
}

void HeldPrefixes::removed(std::uint32_t slot, std::uint64_t key) {
  if (const std::uint32_t node = slots_[slot].known.find(key); node != RecentKeys::kNone) drop_known(slot, node);
}

void HeldPrefixes::cleared(std::uint32_t slot) {
  drop_all(slot, slots_[slot].known);
  drop_all(slot, slots_[slot].predicted);
}

void HeldPrefixes::events_lost(std::uint32_t slot) {
  if (slots_[slot].by_events) cleared(slot);
}

std::optional<core::Instant> HeldPrefixes::used_at(std::uint32_t slot, std::uint64_t key, core::Instant now) const {
  const RecentKeys& known = slots_[slot].known;
  return use_of(known, known.find(key), now);
}

std::optional<core::Instant> HeldPrefixes::oldest_use(std::uint32_t slot, core::Instant now) const {
  const RecentKeys& known = slots_[slot].known;
  return use_of(known, known.oldest(), now);
}

void HeldPrefixes::prefix_missing(std::uint32_t slot, core::Instant used_at) {
  const Slot& of = slots_[slot];
  if (of.by_events) return;
  const std::uint32_t until_ms = clipped_ms(used_at);
  while (of.known.size() > 0) {
    const std::uint32_t node = of.known.oldest();
    if (static_cast<std::int32_t>(of.known.note(node) - until_ms) > 0) return;
    drop_known(slot, node);
  }
}

void HeldPrefixes::fit(std::uint32_t slot) {
  const Slot& of = slots_[slot];
  const std::uint64_t most = of.by_events ? std::uint64_t{of.capacity} * kEventsOverCapacity : of.capacity;
  while (of.known.size() > most) drop_known(slot, of.known.oldest());
}

void HeldPrefixes::drop_known(std::uint32_t slot, std::uint32_t node) {
  RecentKeys& known = slots_[slot].known;
  if (known.is_unnamed(node)) return known.erase_unnamed(node);
  holders_.drop(slot, known.key(node));
  known.erase(node);
}

void HeldPrefixes::drop_all(std::uint32_t slot, RecentKeys& keys) {
  for (std::uint32_t node = keys.oldest(); node != RecentKeys::kNone; node = keys.newer(node))
    if (!keys.is_unnamed(node)) holders_.drop(slot, keys.key(node));
  keys.clear();
}

std::span<const Holders::Overlap> HeldPrefixes::overlaps(std::span<const std::uint64_t> keys, core::Instant now) {
  if (outdated_at_ != core::kNever && now >= outdated_at_ + kLate) drop_outdated(now);
  return holders_.overlaps(keys);
}

}  // namespace penstock::routing
