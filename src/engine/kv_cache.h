// The paged KV cache of one engine: blocks in use, blocks that keep a prefix for later, free blocks.
#pragma once

#include <cstdint>
#include <vector>

namespace penstock::engine {

// Names the content of a block: a whole prefix up to and including it. Keys below 2^32 are the workload's block ids;
// keys with the top bit are private to one request (private_key).
using BlockKey = std::uint64_t;

inline constexpr BlockKey kPrivateKeyBit = BlockKey{1} << 63;
[[nodiscard]] constexpr BlockKey private_key(std::uint32_t request, std::uint32_t block) {
  return kPrivateKeyBit | (BlockKey{request} << 31) | block;
}

struct CacheEvent {
  BlockKey key;
  bool stored;  // false: given up
};

// Blocks are counted, not addressed. A keyed block is shared by reference; a private block belongs to one sequence and
// has no identity until its sequence lets go of it. A block nobody uses keeps its content until it is the least recently
// used and the space is needed. All operations are O(1) per block.
class KvCache {
 public:
  using Node = std::uint32_t;

  // caching = false: nothing is kept once nobody uses it.
  KvCache(std::uint32_t blocks, bool caching);

  struct Prefix {
    std::uint32_t hits = 0;           // leading blocks that are held, in use or not
    std::uint32_t inactive_hits = 0;  // those of them that nobody uses: using them takes room
  };
  // `key_at(i)` is the key of block i; looks at no more than `limit` blocks.
  template <class KeyAt>
  [[nodiscard]] Prefix find_prefix(std::uint32_t limit, KeyAt&& key_at) const {
    Prefix prefix;
    while (prefix.hits < limit) {
      const Node node = find(key_at(prefix.hits));
      if (node == kNone) break;
      prefix.inactive_hits += nodes_[node].references == 0 ? 1 : 0;
      ++prefix.hits;
    }
    return prefix;
  }

  [[nodiscard]] std::uint32_t total() const { return total_; }
  [[nodiscard]] std::uint32_t active() const { return active_; }
  [[nodiscard]] std::uint32_t available() const { return total_ - active_; }  // free, or kept but unused
  [[nodiscard]] std::uint64_t evictions() const { return evictions_; }

  // Takes a share in the block of this key, which becomes a block in use. Allocates it if it is not held; the caller
  // has made sure that there is room.
  [[nodiscard]] Node acquire(BlockKey key);
  void release(Node node);

  // Private blocks. release_private keeps `full` of them as content nobody will ask for again, and frees the rest.
  void allocate_private(std::uint32_t blocks);
  void release_private(std::uint32_t full, std::uint32_t partial);
  // One private full block becomes a kept block under a key that can be found again.
  void release_private_as(BlockKey key);

  // Stored and given-up blocks with shared keys, since the last clear; recorded only while listening.
  void listen() { listening_ = true; }
  [[nodiscard]] std::vector<CacheEvent>& events() { return events_; }

 private:
  static constexpr Node kNone = UINT32_MAX;
  static constexpr Node kSentinel = 0;

  struct Entry {
    BlockKey key = 0;
    std::uint32_t references = 0;  // of an anonymous entry: the number of blocks it stands for
    Node previous = kNone, next = kNone;
    bool anonymous = false;
  };
  struct Slot {
    BlockKey key;
    Node node;
  };

  [[nodiscard]] std::size_t home(BlockKey key) const;
  [[nodiscard]] Node find(BlockKey key) const;
  [[nodiscard]] Node insert(BlockKey key);
  void erase(BlockKey key);
  void make_room(std::uint32_t blocks);
  void link_last(Node node);
  void unlink(Node node);
  Node new_node();
  void note(BlockKey key, bool stored);

  std::uint32_t total_;
  std::uint32_t active_ = 0;
  std::uint32_t kept_ = 0;  // unused blocks with content
  bool caching_;
  bool listening_ = false;
  std::uint64_t evictions_ = 0;
  std::vector<Entry> nodes_;  // nodes_[kSentinel] anchors the list of unused blocks, least recently used first
  std::vector<Node> free_nodes_;
  std::vector<Slot> slots_;
  std::size_t slot_mask_ = 0;
  std::vector<CacheEvent> events_;
};

}  // namespace penstock::engine
