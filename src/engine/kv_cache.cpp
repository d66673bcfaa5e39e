#include "engine/kv_cache.h"

#include <bit>

#include "core/random.h"
#include "core/result.h"

namespace penstock::engine {

KvCache::KvCache(std::uint32_t blocks, bool caching) : total_(blocks), caching_(caching) {
  PENSTOCK_ASSERT(blocks > 0, "a KV cache has blocks");
  nodes_.resize(1);
  nodes_[kSentinel].previous = nodes_[kSentinel].next = kSentinel;
  slots_.assign(std::bit_ceil(std::size_t{64}), Slot{0, kNone});
  slot_mask_ = slots_.size() - 1;
}

KvCache::Node KvCache::find(BlockKey key) const {
  for (std::size_t at = home(key);; at = (at + 1) & slot_mask_) {
    if (slots_[at].node == kNone) return kNone;
    if (slots_[at].key == key) return slots_[at].node;
  }
}

KvCache::Node KvCache::insert(BlockKey key) {
  const std::size_t held = nodes_.size() - free_nodes_.size();
  if (held * 2 > slots_.size()) {  // grows with what is held, so that a fleet of idle replicas stays small
    std::vector<Slot> old(slots_.size() * 2, Slot{0, kNone});
    old.swap(slots_);
    slot_mask_ = slots_.size() - 1;
    for (const Slot& slot : old) {
      if (slot.node == kNone) continue;
      std::size_t at = home(slot.key);
      while (slots_[at].node != kNone) at = (at + 1) & slot_mask_;
      slots_[at] = slot;
    }
  }
  std::size_t at = home(key);
  while (slots_[at].node != kNone) at = (at + 1) & slot_mask_;
  const Node node = new_node();
  nodes_[node].key = key;
  slots_[at] = {key, node};
  note(key, true);
  return node;
}

void KvCache::erase(BlockKey key) {
  std::size_t hole = home(key);
  while (slots_[hole].key != key || slots_[hole].node == kNone) hole = (hole + 1) & slot_mask_;
  for (std::size_t at = (hole + 1) & slot_mask_; slots_[at].node != kNone; at = (at + 1) & slot_mask_) {
    const std::size_t wanted = home(slots_[at].key);
    if (((at - wanted) & slot_mask_) < ((at - hole) & slot_mask_)) continue;  // already as near as it can be
    slots_[hole] = slots_[at];
    hole = at;
  }
  slots_[hole].node = kNone;
  note(key, false);
}

KvCache::Node KvCache::acquire(BlockKey key) {
  Node node = find(key);
  if (node == kNone) {
    make_room(1);
    node = insert(key);
    ++active_;
  } else if (nodes_[node].references == 0) {
    unlink(node);
    --kept_;
    ++active_;
  }
  ++nodes_[node].references;
  return node;
}

void KvCache::release(Node node) {
  Entry& entry = nodes_[node];
  PENSTOCK_ASSERT(entry.references > 0, "a released block is in use");
  if (--entry.references > 0) return;
  --active_;
  if (caching_) {
    link_last(node);
    ++kept_;
  } else {
    erase(entry.key);
    free_nodes_.push_back(node);
  }
}

void KvCache::allocate_private(std::uint32_t blocks) {
  make_room(blocks);
  active_ += blocks;
}

void KvCache::release_private(std::uint32_t full, std::uint32_t partial) {
  active_ -= full + partial;
  if (!caching_ || full == 0) return;
  kept_ += full;
  const Node last = nodes_[kSentinel].previous;
  if (last != kSentinel && nodes_[last].anonymous) {
    nodes_[last].references += full;
    return;
  }
  const Node node = new_node();
  nodes_[node].anonymous = true;
  nodes_[node].references = full;
  link_last(node);
}

void KvCache::release_private_as(BlockKey key) {
  if (!caching_ || find(key) != kNone) {
    release_private(0, 1);
    return;
  }
  --active_;
  ++kept_;
  link_last(insert(key));
}

void KvCache::make_room(std::uint32_t blocks) {
  PENSTOCK_ASSERT(blocks <= available(), "the scheduler asks for no more than there is");
  std::uint32_t free = total_ - active_ - kept_;
  while (free < blocks) {
    const Node oldest = nodes_[kSentinel].next;
    Entry& entry = nodes_[oldest];
    if (entry.anonymous) {
      const std::uint32_t taken = std::min(entry.references, blocks - free);
      entry.references -= taken;
      free += taken;
      kept_ -= taken;
      evictions_ += taken;
      if (entry.references > 0) continue;
    } else {
      erase(entry.key);
      ++free;
      --kept_;
      ++evictions_;
    }
    unlink(oldest);
    free_nodes_.push_back(oldest);
  }
}

void KvCache::link_last(Node node) {
  Entry& sentinel = nodes_[kSentinel];
  nodes_[node].previous = sentinel.previous;
  nodes_[node].next = kSentinel;
  nodes_[sentinel.previous].next = node;
  sentinel.previous = node;
}

void KvCache::unlink(Node node) {
  const Entry& entry = nodes_[node];
  nodes_[entry.previous].next = entry.next;
  nodes_[entry.next].previous = entry.previous;
}

KvCache::Node KvCache::new_node() {
  Node node = 0;
  if (free_nodes_.empty()) {
    node = static_cast<Node>(nodes_.size());
    nodes_.emplace_back();
  } else {
    node = free_nodes_.back();
    free_nodes_.pop_back();
    nodes_[node] = Entry{};
  }
  return node;
}

void KvCache::note(BlockKey key, bool stored) {
  if (listening_ && key < kPrivateKeyBit) events_.push_back({key, stored});
}

}  // namespace penstock::engine
